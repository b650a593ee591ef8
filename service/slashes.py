"""A trailing or doubled slash in a path is served as if absent (decisions, Trailing slash)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aiohttp import web
from yarl import URL

if TYPE_CHECKING:
    from service.problems import Handler

_SLASHES = re.compile(r"/{2,}")


def tidy(path: str) -> str:
    """Return the encoded path without doubled and trailing slashes."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"


@web.middleware
async def ignore_extra_slashes(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Resolve a path that matched nothing once more, without its extra slashes."""
    path = request.rel_url.raw_path
    if request.match_info.http_exception is None or tidy(path) == path:
        return await handler(request)
    tidied = request.clone(
        rel_url=URL.build(path=tidy(path), query_string=request.rel_url.raw_query_string, encoded=True)
    )
    match = await request.app.router.resolve(tidied)
    match.add_app(request.app)
    tidied._match_info = match  # noqa: SLF001 - what aiohttp's own normalize_path_middleware relies on
    return await match.handler(tidied)
