"""The compatible profile: what existing clients of a platform of this shape expect in responses (decision 35)."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from multidict import MultiMapping

from service.http.negotiation import MAX_ELEMENTS, joined_lines

COMPATIBLE = "compatible"
# Those clients take a cookie from the first response and fail without one. It identifies no one.
PROFILE_HEADERS: Mapping[str, str] = {
    "Set-Cookie": "session=none; Path=/; HttpOnly; SameSite=Lax",
    "Vary": "x-api-key, Authorization, Accept-Encoding, Accept",
}
_MEDIA_RANGE = re.compile(r"application/vnd\.[a-z0-9.-]+\+json[ \t]*;[ \t]*version=1[ \t]*(?:;.*)?")
_CACHED_HEADERS = 128


def accepts_profile(headers: MultiMapping[str]) -> bool:
    """Return whether `Accept` asks for the profile: `application/vnd.<name>+json;version=1`."""
    return _names_profile(joined_lines(headers, "Accept"))


@lru_cache(maxsize=_CACHED_HEADERS)
def _names_profile(accept: str) -> bool:
    elements = accept.lower().split(",", MAX_ELEMENTS)
    return any(_MEDIA_RANGE.fullmatch(element.strip(" \t")) for element in elements)


def compatible_problem(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a problem document in which `status` is a word, which those clients test, and `status_code` the number."""
    return {**document, "status": "fail", "status_code": document["status"]}
