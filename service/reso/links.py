"""The URLs that answers hold: absolute, as the client reached the service."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from service.addresses import is_trusted
from service.reso.place import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web

    from service.addresses import Network
    from service.operation import Call

_SCHEMES = frozenset({"http", "https"})
# What stands for itself within a query (RFC 3986, section 3.4), but for what separates its parts or is a space there.
_PLAIN_IN_QUERY = "$'(),:;@!*/?-._~"


def origin_of(request: web.Request, trusted: Sequence[Network]) -> str:
    """Return scheme and host by which a client came, empty where it named no host.

    A proxy that is trusted may say what they were in front of it.
    """
    host, scheme = request.headers.get("Host", ""), request.scheme
    if is_trusted(request.remote or "", trusted):
        host = _first(request, "X-Forwarded-Host") or host
        told = _first(request, "X-Forwarded-Proto").lower()
        scheme = told if told in _SCHEMES else scheme
    return f"{scheme}://{host}" if host else ""


def _first(request: web.Request, name: str) -> str:
    return request.headers.get(name, "").partition(",")[0].strip()


def root_of(call: Call) -> str:
    """Return the URL of the service document, with a slash at its end."""
    return f"{call.origin}{ROOT}/"


def collection_url(call: Call, name: str, options: Mapping[str, object]) -> str:
    """Return the URL of an entity set with query options."""
    query = "&".join(f"{key}={quote(str(value), safe=_PLAIN_IN_QUERY)}" for key, value in options.items())
    return f"{root_of(call)}{name}?{query}"


def entity_url(root: str, name: str, key: str) -> str:
    """Return the URL of an entity by its key."""
    return f"{root}{name}('{quote(key.replace(chr(39), chr(39) * 2), safe=chr(39))}')"
