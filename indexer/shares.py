"""How many records a share allows: to be bad, to come, to go."""

from __future__ import annotations

# In small numbers a share says nothing.
_ALWAYS_ALLOWED = 10


def allowed(share: float, of: int) -> float:
    """Return how many of so many records a share allows; a few it always does."""
    return max(_ALWAYS_ALLOWED, share * of)
