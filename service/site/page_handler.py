"""The handler of `/docs`: pages and assets are rendered on first use and cached in compressed form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from service.errors import NotFound
from service.http.negotiation import ContentCoding, negotiate_coding
from service.http.precompressed import PrecompressedBody, precompress
from service.http.slashes import collapse_slashes
from service.site.pages import DOCS_ROOT, PAGE_BY_PATH, SCRIPTED_PAGES

if TYPE_CHECKING:
    from aiohttp import web

SITE_PATHS = (DOCS_ROOT, DOCS_ROOT + "/{name:.*}")

_PAGE_SECONDS = 300
_IMMUTABLE = "public, max-age=31536000, immutable"
# Only our own resources, no framing, no form targets.
_CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# Swagger UI, the map and the console call the service.
SCRIPTED_CONTENT_POLICY = f"{_CONTENT_POLICY}; script-src 'self'; connect-src 'self'"


class SiteHandler:
    """Serves pages and assets."""

    def __init__(self) -> None:
        """Render nothing yet: most processes never serve a page."""
        self._cache: dict[tuple[str, ContentCoding], PrecompressedBody] = {}

    async def respond(self, request: web.Request) -> web.Response:
        """Return a page or asset in the negotiated coding, or 304; raise NotFound for other paths."""
        key = collapse_slashes(request.path), negotiate_coding(request.headers)
        body = self._cache.get(key)
        if body is None:
            # Reading and rendering take milliseconds: do not block the event loop.
            body = self._cache[key] = await asyncio.to_thread(_render_compressed, *key)
        return body.respond(request)


def _render_compressed(path: str, coding: ContentCoding) -> PrecompressedBody:
    body, content_type, headers = _render(path)
    return precompress(body, coding, {**headers, "Content-Type": f"{content_type}; charset=utf-8"})


def _render(path: str) -> tuple[bytes, str, dict[str, str]]:
    """Return the body of a path, its content type and headers. Paths are looked up, never joined."""
    # Markdown and syntax highlighting take most of the import time of the site.
    from service.site.assets import site_assets  # noqa: PLC0415
    from service.site.layout import page_html  # noqa: PLC0415

    if (page := PAGE_BY_PATH.get(path)) is not None:
        policy = SCRIPTED_CONTENT_POLICY if page in SCRIPTED_PAGES else _CONTENT_POLICY
        cache_control = f"public, max-age={_PAGE_SECONDS}"
        return page_html(page), "text/html", {"Cache-Control": cache_control, "Content-Security-Policy": policy}
    for asset in site_assets().values():
        if asset.path == path:
            return asset.body, asset.content_type, {"Cache-Control": _IMMUTABLE}
    raise NotFound(f"The documentation has no such page; it starts at {DOCS_ROOT}.")
