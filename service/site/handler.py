"""Serves the documentation: pages, their Markdown, assets, and the index for the search."""

import asyncio

from aiohttp import web

from service.errors import NotFound
from service.http.negotiation import ContentCoding
from service.http.requests import collapse_slashes, negotiate_coding
from service.http.responses import CONTENT_POLICY, PrecompressedBody, precompress
from service.site.pages import DOCS_ROOT, PAGE_BY_MARKDOWN_PATH, PAGE_BY_PATH, Site, site_assets

SITE_PATHS = (DOCS_ROOT, DOCS_ROOT + "/{name:.*}")

SEARCH_INDEX_PATH = f"{DOCS_ROOT}/search.json"
_PAGE_HEADERS = {"Cache-Control": "public, max-age=300"}
_IMMUTABLE = "public, max-age=31536000, immutable"


class SiteHandler:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._cache: dict[tuple[str, ContentCoding], PrecompressedBody] = {}

    async def respond(self, request: web.Request) -> web.Response:
        """Return a page or asset in the negotiated coding, or 304; raise NotFound for other paths."""
        key = collapse_slashes(request.path), negotiate_coding(request.headers)
        body = self._cache.get(key)
        if body is None:
            # Reading and rendering take milliseconds: do not block the event loop.
            body = self._cache[key] = await asyncio.to_thread(_render_compressed, *key, self._site)
        return body.respond(request)


def _render_compressed(path: str, coding: ContentCoding, site: Site) -> PrecompressedBody:
    body, content_type, headers = render(path, site)
    return precompress(body, coding, {**headers, "Content-Type": f"{content_type}; charset=utf-8"})


def render(path: str, site: Site) -> tuple[bytes, str, dict[str, str]]:
    """Return the body of a path, its content type and headers. Paths are looked up, never joined."""
    # Markdown and syntax highlighting take most of the import time of the site.
    from service.site.rendering import (  # noqa: PLC0415
        encoded_search_index,
        page_html,
        page_text,
    )

    if site.has(page := PAGE_BY_PATH.get(path)):
        return page_html(page, site), "text/html", {**_PAGE_HEADERS, "Content-Security-Policy": CONTENT_POLICY}
    if site.has(page := PAGE_BY_MARKDOWN_PATH.get(path)):
        return page_text(page, site).encode(), "text/markdown", _PAGE_HEADERS
    if path == SEARCH_INDEX_PATH:
        return encoded_search_index(site), "application/json", _PAGE_HEADERS
    for asset in site_assets().values():
        if asset.path == path:
            return asset.body, asset.content_type, {"Cache-Control": _IMMUTABLE}
    raise NotFound(f"The documentation has no such page; it starts at {DOCS_ROOT}.")
