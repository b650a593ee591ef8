"""How long the pages of an answer are: as the client prefers, within bounds."""

from __future__ import annotations

import re
from typing import NamedTuple

from service.parameters.groups import LARGEST_PAGE, SMALL_PAGE

_PREFERRED = re.compile(r"(?:odata\.)?maxpagesize\s*=\s*\"?([0-9]{1,9})\"?", re.IGNORECASE | re.ASCII)


class Preference(NamedTuple):
    """The page size that a client prefers, and how it said so."""

    size: int
    said: str


def preferred(lines: str) -> Preference | None:
    """Return the preference among those of `Prefer`; None where it is not there or is none."""
    match = _PREFERRED.search(lines)
    if match is None or not int(match[1]):
        return None
    size = min(int(match[1]), LARGEST_PAGE)
    name = match[0].partition("=")[0].strip()
    return Preference(size, f"{name}={size}")


def page_size(preference: Preference | None, top: int | None) -> int:
    """Return how many rows a page has: as preferred, else all that are asked for, within bounds."""
    if preference is not None:
        return preference.size
    return SMALL_PAGE if top is None else max(1, min(top, LARGEST_PAGE))
