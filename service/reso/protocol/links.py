"""Absolute URLs in responses, with the origin by which the client reached the service."""

from collections.abc import Mapping
from urllib.parse import quote

from service.request_context import RequestContext
from service.reso.protocol.root import RESO_ROOT

# Allowed in a query (RFC 3986, section 3.4), except its separators and the plus sign, which means a space.
_SAFE_IN_QUERY = "$'(),:;@!*/?-._~"


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
