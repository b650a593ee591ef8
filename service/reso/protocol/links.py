"""Absolute URLs in responses, with the origin by which the client reached the service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from service.http.client_address import is_trusted_proxy
from service.reso.protocol.root import RESO_ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web

    from service.http.client_address import IpNetwork
    from service.request_context import RequestContext

_SCHEMES = frozenset({"http", "https"})
# Every row of a page of events repeats it (a name has at most 253 characters, RFC 1035, section 2.3.4).
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)
# Allowed in a query (RFC 3986, section 3.4), except its separators and the plus sign, which means a space.
_SAFE_IN_QUERY = "$'(),:;@!*/?-._~"


def request_origin(request: web.Request, trusted: Sequence[IpNetwork]) -> str:
    """Return the scheme and host of a request, empty if it has no valid host, so that links are relative.

    Forwarded headers count only from a trusted proxy.
    """
    host, scheme = request.headers.get("Host", ""), request.scheme
    if is_trusted_proxy(request.remote or "", trusted):
        host = _first_value(request, "X-Forwarded-Host") or host
        forwarded = _first_value(request, "X-Forwarded-Proto").lower()
        scheme = forwarded if forwarded in _SCHEMES else scheme
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else ""


def _first_value(request: web.Request, name: str) -> str:
    return request.headers.get(name, "").partition(",")[0].strip()


def service_root_url(call: RequestContext) -> str:
    """Return the URL of the service document, with a trailing slash."""
    return f"{call.origin}{RESO_ROOT}/"


def collection_url(call: RequestContext, name: str, options: Mapping[str, object]) -> str:
    """Return the URL of an entity set with query options."""
    query = "&".join(f"{key}={quote(str(value), safe=_SAFE_IN_QUERY)}" for key, value in options.items())
    return f"{service_root_url(call)}{name}?{query}"


def entity_url(root: str, name: str, key: str) -> str:
    """Return the URL of an entity by its key."""
    return f"{root}{name}('{quote(key.replace(chr(39), chr(39) * 2), safe=chr(39))}')"
