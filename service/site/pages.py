"""The pages of `/docs`, and the handler that serves them."""

import asyncio
from dataclasses import dataclass
from functools import cache
from importlib import resources

import xxhash
from aiohttp import web

from service.errors import NotFound
from service.http.negotiation import ContentCoding, negotiate_coding
from service.http.requests import collapse_slashes
from service.http.responses import PrecompressedBody, precompress
from service.settings import contact_uri

DOCS_ROOT = "/docs"
SITE_FILES = resources.files("service.site")


@dataclass(frozen=True)
class SitePage:
    """One page: its path below `/docs`, which is also the name of its text file, and its title."""

    name: str
    title: str

    @property
    def path(self) -> str:
        """The URL path of the page."""
        return DOCS_ROOT if self is START_PAGE else f"{DOCS_ROOT}/{self.name}"

    @property
    def markdown_path(self) -> str:
        """The URL path of the page as Markdown."""
        return f"{DOCS_ROOT}/{self.name}.md"

    @property
    def text(self) -> str:
        """The Markdown source."""
        return SITE_FILES.joinpath("text", f"{self.name}.md").read_text(encoding="utf-8")


START_PAGE = SitePage("start", "Get started")
REFERENCE_PAGE = SitePage("reference", "Interactive reference")
MAP_PAGE = SitePage("map", "Map of listings")
FIELDS_PAGE = SitePage("fields", "Field dictionary")
# These take the full width.
WIDE_PAGES = frozenset({REFERENCE_PAGE, MAP_PAGE})

PAGE_GROUPS: dict[str, tuple[SitePage, ...]] = {
    "Get started": (
        START_PAGE,
        SitePage("keys", "Keys and companies"),
        SitePage("parameters", "Operations and parameters"),
    ),
    "Guides": (
        SitePage("walk", "Walk a whole feed"),
        SitePage("sync", "Stay in sync"),
        SitePage("changes", "Changes, snapshots, digests"),
        SitePage("everything", "Copy everything"),
        SitePage("copy", "Keep a copy"),
        SitePage("reso", "RESO Web API"),
        SitePage("resume", "Resume"),
        SitePage("timestamps", "What each timestamp means"),
        SitePage("errors", "Errors and retries"),
        SitePage("limits", "Limits"),
        SitePage("transfer", "Compression and caching"),
        SitePage("geojson", "GeoJSON"),
        SitePage("clients", "Typed clients"),
        SitePage("move", "Move an existing client here"),
    ),
    "Reference": (
        REFERENCE_PAGE,
        MAP_PAGE,
        FIELDS_PAGE,
        SitePage("problems", "Problem codes"),
        SitePage("changelog", "Changelog"),
    ),
}
PAGE_BY_PATH: dict[str, SitePage] = {page.path: page for pages in PAGE_GROUPS.values() for page in pages}
PAGE_BY_MARKDOWN_PATH: dict[str, SitePage] = {page.markdown_path: page for page in PAGE_BY_PATH.values()}


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "json": "application/geo+json"}
_FILES = (
    *("assets/site.css", "assets/icon.svg", "assets/reference.css", "assets/reference.js"),
    *("assets/map.css", "assets/map.js", "assets/map_plane.js", "assets/fields.js", "assets/map_example.json"),
    *("assets/site.js", "assets/examples.js", "assets/search.js", "minisearch/minisearch.js"),
)
_SWAGGER_UI = ("swagger_ui/swagger-ui.css", "swagger_ui/swagger-ui-bundle.js")


@dataclass(frozen=True)
class SiteAsset:
    """One file: its URL path, content type and bytes."""

    path: str
    content_type: str
    body: bytes


@cache
def site_assets() -> dict[str, SiteAsset]:
    """Return all assets by file name, such as `site.css`."""
    return {file.rpartition("/")[2]: _load_asset(file) for file in (*_FILES, *_SWAGGER_UI)}


def _load_asset(file: str) -> SiteAsset:
    body = SITE_FILES.joinpath(file).read_bytes()
    stem, _, extension = file.rpartition("/")[2].rpartition(".")
    digest = xxhash.xxh3_64_hexdigest(body)
    return SiteAsset(f"{DOCS_ROOT}/assets/{stem}.{digest}.{extension}", _TYPES[extension], body)


SITE_PATHS = (DOCS_ROOT, DOCS_ROOT + "/{name:.*}")

SEARCH_INDEX_PATH = f"{DOCS_ROOT}/search.json"
_PAGE_HEADERS = {"Cache-Control": "public, max-age=300"}
_IMMUTABLE = "public, max-age=31536000, immutable"
# Only our own resources, no framing, no form targets.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; script-src 'self'; connect-src 'self'"
)


class SiteHandler:
    """Serves pages and assets."""

    def __init__(self, contact: str = "") -> None:
        """Render nothing yet: most processes never serve a page. `contact` is a mail address or an https URL."""
        self._contact = contact_uri(contact)
        self._cache: dict[tuple[str, ContentCoding], PrecompressedBody] = {}

    async def respond(self, request: web.Request) -> web.Response:
        """Return a page or asset in the negotiated coding, or 304; raise NotFound for other paths."""
        key = collapse_slashes(request.path), negotiate_coding(request.headers)
        body = self._cache.get(key)
        if body is None:
            # Reading and rendering take milliseconds: do not block the event loop.
            body = self._cache[key] = await asyncio.to_thread(_render_compressed, *key, self._contact)
        return body.respond(request)


def _render_compressed(path: str, coding: ContentCoding, contact: str = "") -> PrecompressedBody:
    body, content_type, headers = _render(path, contact)
    return precompress(body, coding, {**headers, "Content-Type": f"{content_type}; charset=utf-8"})


def _render(path: str, contact: str) -> tuple[bytes, str, dict[str, str]]:
    """Return the body of a path, its content type and headers. Paths are looked up, never joined."""
    # Markdown and syntax highlighting take most of the import time of the site.
    from service.site.rendering import (  # noqa: PLC0415
        encoded_search_index,
        page_html,
        page_text,
    )

    if (page := PAGE_BY_PATH.get(path)) is not None:
        return page_html(page, contact), "text/html", {**_PAGE_HEADERS, "Content-Security-Policy": CONTENT_POLICY}
    if (page := PAGE_BY_MARKDOWN_PATH.get(path)) is not None:
        return page_text(page).encode(), "text/markdown", _PAGE_HEADERS
    if path == SEARCH_INDEX_PATH:
        return encoded_search_index(), "application/json", _PAGE_HEADERS
    for asset in site_assets().values():
        if asset.path == path:
            return asset.body, asset.content_type, {"Cache-Control": _IMMUTABLE}
    raise NotFound(f"The documentation has no such page; it starts at {DOCS_ROOT}.")
