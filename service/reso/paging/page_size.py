"""Page sizes: the client's preference, within limits."""

import re
from typing import NamedTuple

from service.parameters.groups import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

_MAX_PAGE_SIZE = re.compile(r"(?:odata\.)?maxpagesize\s*=\s*\"?([0-9]{1,9})\"?", re.IGNORECASE | re.ASCII)


class PageSizePreference(NamedTuple):
    """The page size that a client prefers, and the preference as sent in `Preference-Applied`."""

    size: int
    applied: str


def parse_preference(lines: str) -> PageSizePreference | None:
    """Return the page size preference in a `Prefer` header, None if it is absent or invalid."""
    match = _MAX_PAGE_SIZE.search(lines)
    if match is None or not int(match[1]):
        return None
    size = min(int(match[1]), MAX_PAGE_SIZE)
    name = match[0].partition("=")[0].strip()
    return PageSizePreference(size, f"{name}={size}")


def effective_page_size(preference: PageSizePreference | None, top: int | None) -> int:
    """Return the number of rows per page: as preferred, else `$top`, within limits."""
    if preference is not None:
        return preference.size
    return DEFAULT_PAGE_SIZE if top is None else max(1, min(top, MAX_PAGE_SIZE))
