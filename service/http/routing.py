"""Routing with a bound on the depth of paths, before any check of a request.

aiohttp looks up every prefix of a path: 65 KB of slashes would block the event loop for half a second.
"""

from aiohttp import web
from aiohttp.web_urldispatcher import MatchInfoError, UrlMappingMatchInfo

# Slashes of a path without doubled ones; operations have up to three.
MAX_PATH_DEPTH = 32


class BoundedRouter(web.UrlDispatcher):
    """A router that finds nothing below `MAX_PATH_DEPTH`."""

    async def resolve(self, request: web.Request) -> UrlMappingMatchInfo:
        """Return the route of a request, or the one that responds 404 or 405."""
        if request.rel_url.raw_path.count("/") > MAX_PATH_DEPTH:
            return MatchInfoError(web.HTTPNotFound())
        return await super().resolve(request)
