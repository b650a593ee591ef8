"""Where the RESO Web API is: every answer below this path is one of OData, refusals included."""

from __future__ import annotations

from service.slashes import tidy

ROOT = "/v1/reso"
# A list of a hundred keys of 64 characters in one filter comes to some 7,300 bytes, before anything else is asked for.
LONGEST_URL_BYTES = 16_384


def is_below(path: str) -> bool:
    """Tell whether a path is part of it, extra slashes aside."""
    if "/reso" not in path:
        return False
    tidied = tidy(path)
    return tidied == ROOT or tidied.startswith(f"{ROOT}/")
