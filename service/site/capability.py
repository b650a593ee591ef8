"""`site`: the documentation for partners under `/docs`, the index for its search, and how programs find it."""

import asyncio
from collections.abc import Mapping
from functools import cache

from aiohttp import web
from aiohttp.typedefs import Handler

from service.capability import Capability, Surface
from service.errors import NotFound
from service.http.requests import ContentCoding, collapse_slashes, negotiate_coding
from service.http.responses import CONTENT_POLICY, PrecompressedBody, precompress
from service.site.client_wheel import CLIENT_PATH, client_wheel, client_wheel_name
from service.site.discovery import accepts_html, create_index_handler, discovery_handlers
from service.site.operating import add_operating
from service.site.pages import DOCS_ROOT, Site, site_assets

_SEARCH_INDEX_PATH = f"{DOCS_ROOT}/search.json"
_PAGE_HEADERS = {"Cache-Control": "public, max-age=300"}
_IMMUTABLE = "public, max-age=31536000, immutable"


def _routes(surface: Surface) -> Mapping[tuple[str, str], Handler]:
    site = Site.of(surface)
    index = create_index_handler(surface.root, surface.paths, site)
    handlers = {
        **dict.fromkeys(("/", surface.root), index),
        **discovery_handlers(surface, site),
        **dict.fromkeys((DOCS_ROOT, DOCS_ROOT + "/{name:.*}"), _site_handler(site)),
    }
    return {("GET", path): handler for path, handler in handlers.items()}


def _site_handler(site: Site) -> Handler:
    """Return the handler of pages and assets, in the negotiated coding; it raises NotFound for other paths."""
    cache: dict[tuple[str, ContentCoding], PrecompressedBody] = {}

    async def respond(request: web.Request) -> web.Response:
        key = collapse_slashes(request.path), negotiate_coding(request.headers)
        if key not in cache:
            # Reading and rendering take milliseconds: do not block the event loop.
            try:
                cache[key] = await asyncio.to_thread(_render_compressed, *key, site)
            except NotFound:
                if not accepts_html(request):
                    raise
                return await asyncio.to_thread(_not_found, site)
        return cache[key].respond(request)

    return respond


def _not_found(site: Site) -> web.Response:
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": CONTENT_POLICY}
    return web.Response(
        status=404, body=_not_found_html(site), content_type="text/html", charset="utf-8", headers=headers
    )


@cache
def _not_found_html(site: Site) -> bytes:
    from service.site.rendering import NOT_FOUND_PAGE, page_html  # noqa: PLC0415

    return page_html(NOT_FOUND_PAGE, site)


def _render_compressed(path: str, coding: ContentCoding, site: Site) -> PrecompressedBody:
    body, content_type, headers = render(path, site)
    return precompress(body, coding, {**headers, "Content-Type": f"{content_type}; charset=utf-8"})


def render(path: str, site: Site) -> tuple[bytes, str, dict[str, str]]:
    """Return the body of a path, its content type and headers. Paths are looked up, never joined."""
    # Markdown and syntax highlighting take most of the import time of the site.
    from service.site.rendering import encoded_search_index, page_html, page_text, site_pages  # noqa: PLC0415

    pages = site_pages(site)
    if page := pages.get(path):
        return page_html(page, site), "text/html", {**_PAGE_HEADERS, "Content-Security-Policy": CONTENT_POLICY}
    if page := next((page for page in pages.values() if page.markdown_path == path), None):
        return page_text(page, site).encode(), "text/markdown", _PAGE_HEADERS
    if path == _SEARCH_INDEX_PATH:
        return encoded_search_index(site), "application/json", _PAGE_HEADERS
    if path == f"{CLIENT_PATH}/{client_wheel_name()}":
        return client_wheel(), "application/octet-stream", _PAGE_HEADERS
    if path == CLIENT_PATH:
        # What `pip install --find-links` reads.
        return (
            f'<a href="{CLIENT_PATH}/{client_wheel_name()}">{client_wheel_name()}</a>\n'.encode(),
            "text/html",
            _PAGE_HEADERS,
        )
    for asset in site_assets().values():
        if asset.path == path:
            return asset.body, asset.content_type, {"Cache-Control": _IMMUTABLE}
    raise NotFound(f"The documentation has no such page; it starts at {DOCS_ROOT}.")


CAPABILITY = Capability("site", routes=_routes, operators=add_operating)
