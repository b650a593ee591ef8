"""Enumerations in sentences: the first of some names, and how many more there are."""

from collections.abc import Sequence

_MAX_NAMED = 10


def listed(names: Sequence[str], count: int, most: int = _MAX_NAMED) -> str:
    """Return the first `most` of some names, and how many more of `count` there are."""
    shown = names[:most]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{', '.join(shown)}{more}"
