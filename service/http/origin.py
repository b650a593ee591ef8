"""The origin by which a client reached the service."""

import re
from collections.abc import Sequence

from aiohttp import web

from service.http.client_address import IpNetwork, is_trusted_proxy

_SCHEMES = frozenset({"http", "https"})
# Every row of a page of events repeats it (a name has at most 253 characters, RFC 1035, section 2.3.4).
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)


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
