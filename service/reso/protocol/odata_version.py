"""OData versions: 4.01, or 4.0 for clients that support no later one; earlier versions are refused."""

import re
from collections.abc import Mapping

from aiohttp import web

from service.errors import InvalidRequest

_VERSION, _MAX_VERSION = "OData-Version", "OData-MaxVersion"
_V4_01, _V4_0 = "4.01", "4.0"
# .NET clients of earlier versions add their name after a semicolon.
_NUMBER = re.compile(r"\s*([0-9]{1,3})\.([0-9]{1,3})\s*(?:;.*)?", re.ASCII)


def odata_version_header(request: web.BaseRequest) -> dict[str, str]:
    """Return the `OData-Version` header; bodies are the same in both versions, except metadata."""
    return {_VERSION: _V4_0 if is_limited_to_4_0(request.headers) else _V4_01}


def is_limited_to_4_0(headers: Mapping[str, str]) -> bool:
    """Whether a client supports no later version: then it does not know metadata in JSON."""
    return _version(headers, _MAX_VERSION) == (4, 0)


def require_known_version(headers: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a client that supports no version from 4.0, or that sends a later one than 4.01."""
    if _MAX_VERSION in headers and (_version(headers, _MAX_VERSION) or (0, 0)) < (4, 0):
        raise InvalidRequest.of(_MAX_VERSION, f"must be {_V4_0} or later: this service has {_V4_0} and {_V4_01}.")
    if _VERSION in headers and _version(headers, _VERSION) not in {(4, 0), (4, 1)}:
        raise InvalidRequest.of(_VERSION, f"must be {_V4_0} or {_V4_01}; a GET request needs none.")


def _version(headers: Mapping[str, str], name: str) -> tuple[int, int] | None:
    match = _NUMBER.fullmatch(headers.get(name, _V4_01))
    return (int(match[1]), int(match[2])) if match else None
