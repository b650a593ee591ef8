"""Ignore trailing and doubled slashes in paths (decisions, Trailing slash)."""

import re

from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

_SLASHES = re.compile(r"/{2,}")


def collapse_slashes(path: str) -> str:
    """Return the encoded path without doubled and trailing slashes."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"


@web.middleware
async def slash_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Resolve an unmatched path again, without its extra slashes."""
    path = request.rel_url.raw_path
    if request.match_info.http_exception is None or collapse_slashes(path) == path:
        return await handler(request)
    collapsed = request.clone(
        rel_url=URL.build(path=collapse_slashes(path), query_string=request.rel_url.raw_query_string, encoded=True)
    )
    match = await request.app.router.resolve(collapsed)
    match.add_app(request.app)
    collapsed._match_info = match  # noqa: SLF001 - as aiohttp's normalize_path_middleware does
    return await match.handler(collapsed)
