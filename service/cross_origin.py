"""Scripts of other sites (CORS): refused by every browser, unless `BROKERAGE_CORS_ORIGINS` lists their origins.

Credentials are never allowed: a key is a header that the script has to send itself, so no page can use what a browser
has kept for somebody else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aiohttp import web

from cluster.settings import SettingError
from service.headers import NEXT_WATERMARK, REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp.typedefs import Middleware

    from service.problems import Handler

SETTING = "BROKERAGE_CORS_ORIGINS"
ANY = "*"

# As browsers send it: no path, no capital, the default port left out (RFC 6454, section 6.2).
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_SENT = "x-api-key, Authorization, If-None-Match, Prefer"
_METHODS = "GET, HEAD, OPTIONS"
# What scripts may read beside the few that they always may.
_READ = ", ".join(
    (
        *("ETag", "Link", "Retry-After", "Warning", "X-Page-Number", "X-Total-Count", "X-Total-Pages"),
        *("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
        *("Deprecation", "Sunset", NEXT_WATERMARK, REQUEST_ID),
        *("OData-Version", "Preference-Applied"),
    )
)
# Browsers ask again after two hours at most.
_PREFLIGHT_SECONDS = "7200"


def refuse_unusable(origins: Collection[str]) -> None:
    """Raise SettingError at the first that no browser would ever send."""
    for origin in origins:
        if origin != ANY and not _ORIGIN.fullmatch(origin):
            raise SettingError(
                f"{SETTING} lists {origin!r}, which is no origin: write for example https://portal.example, or *."
            )


def shared_with(origins: Collection[str]) -> Middleware:
    """Return the middleware that tells browsers which of these origins may read an answer."""
    refuse_unusable(origins)

    @web.middleware
    async def share(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        headers = response.headers
        if ANY not in origins:
            # Also where nothing is allowed: what is kept for one site must not be shown to another.
            headers["Vary"] = ", ".join(filter(None, (headers.get("Vary"), "Origin")))
        origin = request.headers.get("Origin", "")
        if ANY in origins or origin in origins:
            headers["Access-Control-Allow-Origin"] = ANY if ANY in origins else origin
            headers.update(_preflight(request) or {"Access-Control-Expose-Headers": _READ})
        return response

    return share


def _preflight(request: web.Request) -> dict[str, str]:
    """Return what a browser is told that asks before a script's request; nothing for the request itself."""
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return {}
    return {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _SENT,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
    }
