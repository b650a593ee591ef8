"""Cross-origin requests (CORS): browsers block them unless `BROKERAGE_CORS_ORIGINS` lists the origin.

Credentials are never allowed: a key is a header that the script must set itself, so no page can use credentials that a
browser stored for another one.
"""

import re
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from cluster.settings import SettingError
from service.http.responses import NEXT_WATERMARK, REQUEST_ID

CORS_ORIGINS_SETTING = "BROKERAGE_CORS_ORIGINS"
ANY_ORIGIN = "*"

# As browsers send it: no path, lower case, without the default port (RFC 6454, section 6.2).
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ALLOWED_HEADERS = "x-api-key, Authorization, If-None-Match, Prefer"
_ALLOWED_METHODS = "GET, HEAD, OPTIONS"
# In addition to the headers that scripts may always read.
_EXPOSED_HEADERS = ", ".join(
    (
        *("ETag", "Link", "Retry-After", "Warning", "X-Page-Number", "X-Total-Count", "X-Total-Pages"),
        *("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
        *("Deprecation", "Sunset", NEXT_WATERMARK, REQUEST_ID),
        *("OData-Version", "Preference-Applied"),
    )
)
# The longest that browsers cache a preflight response.
_PREFLIGHT_SECONDS = "7200"


def require_valid_origins(origins: Collection[str]) -> None:
    """Raise SettingError at the first value that no browser sends as an origin."""
    for origin in origins:
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise SettingError(
                f"{CORS_ORIGINS_SETTING}: {origin!r} is not an origin. Use one like https://portal.example, or *."
            )


def cors_middleware(origins: Collection[str]) -> Middleware:
    """Return the middleware that lets scripts of these origins read responses."""
    require_valid_origins(origins)

    @web.middleware
    async def add_cors_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        headers = response.headers
        if ANY_ORIGIN not in origins:
            # Even if the origin is not allowed: a response cached for one site must not be served to another.
            headers["Vary"] = ", ".join(filter(None, (headers.get("Vary"), "Origin")))
        origin = request.headers.get("Origin", "")
        if ANY_ORIGIN in origins or origin in origins:
            headers["Access-Control-Allow-Origin"] = ANY_ORIGIN if ANY_ORIGIN in origins else origin
            headers.update(_preflight(request) or {"Access-Control-Expose-Headers": _EXPOSED_HEADERS})
        return response

    return add_cors_headers


def _preflight(request: web.Request) -> dict[str, str]:
    """Return the headers of the response to a preflight request; none for any other request."""
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return {}
    return {
        "Access-Control-Allow-Methods": _ALLOWED_METHODS,
        "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
    }
