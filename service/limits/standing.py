"""Where a key stands with its limit, and the headers that tell (draft-ietf-httpapi-ratelimit-headers-10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.limits.policy import Policy

_SECOND_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Standing:
    """A key's bucket behind one request. Times are in microseconds.

    `backlog` is how long the bucket would take to be full again if the request were let through: more than its depth
    means that it was not.
    """

    policy: Policy | None
    backlog: int = 0

    @property
    def allowed(self) -> bool:
        """Whether the request was let through."""
        return self.policy is None or self.backlog <= self.policy.depth

    @property
    def remaining(self) -> int:
        """How many more would be let through at once; 0 without a limit, where nobody counts."""
        return 0 if self.policy is None else (self.policy.depth - self._level(self.policy)) // self.policy.step

    @property
    def retry_after(self) -> int:
        """Whole seconds until one request more is let through than now."""
        return 0 if self.policy is None else _seconds(self._next(self.policy))

    def headers(self) -> dict[str, str]:
        """Return the headers; a key without a limit has none.

        The burst is what remains is counted of. `X-RateLimit-Reset` is in seconds from now, until the burst is whole.
        """
        if self.policy is None:
            return {}
        level, remaining = self._level(self.policy), self.remaining
        return {
            "RateLimit-Policy": policy_header(self.policy),
            "RateLimit": f'"burst";r={remaining};t={self.retry_after}',
            "X-RateLimit-Limit": str(self.policy.burst),
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": str(_seconds(level)),
        }

    def _level(self, policy: Policy) -> int:
        """Return how much the bucket lacks: a request that was refused took nothing."""
        return max(self.backlog if self.allowed else self.backlog - policy.step, 0)

    def _next(self, policy: Policy) -> int:
        if not self._level(policy):
            return 0
        return self._level(policy) - policy.depth + (self.remaining + 1) * policy.step


@lru_cache(maxsize=1024)
def policy_header(policy: Policy) -> str:
    """Return the two sides of a bucket: so many at once, after so many seconds of rest, and so many each minute."""
    return f'"burst";q={policy.burst};w={_seconds(policy.depth)},"minute";q={policy.rate};w=60'


def _seconds(microseconds: int) -> int:
    return -(-microseconds // _SECOND_MICROSECONDS)
