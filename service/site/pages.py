"""The pages of `/docs`, their assets, and which of them a deployment has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TypeGuard

import xxhash

from service.capability import Capability, Surface
from service.settings import contact_uri

DOCS_ROOT = "/docs"
# In texts; pages replace it with the service's own.
HOST = "https://api.example.com"
SITE_FILES = resources.files("service.site")


@dataclass(frozen=True)
class SitePage:
    """One page: its path below `/docs`, which is also the name of its text file, and its title; or a generated text."""

    name: str
    title: str
    generated: str = field(default="", compare=False, repr=False)

    @property
    def path(self) -> str:
        return DOCS_ROOT if self is START_PAGE else f"{DOCS_ROOT}/{self.name}"

    @property
    def markdown_path(self) -> str:
        return f"{DOCS_ROOT}/{self.name}.md"

    @property
    def text(self) -> str:
        return self.generated or SITE_FILES.joinpath("text", f"{self.name}.md").read_text(encoding="utf-8")


START_PAGE = SitePage("start", "Get started")
REFERENCE_PAGE = SitePage("reference", "API reference")
MAP_PAGE = SitePage("map", "Map of listings")
FIELDS_PAGE = SitePage("fields", "Field dictionary")
# It takes the full width.
WIDE_PAGES = frozenset({MAP_PAGE})

PAGE_GROUPS: dict[str, tuple[SitePage, ...]] = {
    "Start": (
        START_PAGE,
        SitePage("keys", "Authentication"),
        SitePage("choose", "Choose how to read the data"),
    ),
    "Copy the data": (
        SitePage("copy", "Copy with one command"),
        SitePage("databases", "Copy to PostgreSQL or MySQL"),
        SitePage("everything", "Download files"),
        SitePage("changes", "Build your own sync"),
        SitePage("push", "React to changes"),
    ),
    "Read live": (
        SitePage("walk", "Pagination and polling"),
        SitePage("parameters", "Operations and filters"),
        SitePage("history", "Price and status history"),
        SitePage("geojson", "GeoJSON"),
        SitePage("reso", "RESO Web API"),
        SitePage("programs", "Open in Excel, Power BI, Tableau"),
    ),
    "Go live": (
        SitePage("errors", "Errors and retries"),
        SitePage("limits", "Rate limits and sizes"),
        SitePage("transfer", "Compression and caching"),
        SitePage("clients", "Typed clients"),
        SitePage("move", "Migrate a client"),
    ),
    "Reference": (
        REFERENCE_PAGE,
        FIELDS_PAGE,
        SitePage("timestamps", "Timestamps"),
        SitePage("problems", "Problem codes"),
        SitePage("glossary", "Glossary"),
        SitePage("changelog", "Changelog"),
        MAP_PAGE,
    ),
}


@dataclass(frozen=True)
class Site:
    """The documentation of a deployment: without the pages of capabilities that are not installed.

    `contact` is the URI of the operator's contact. `installed` names the capabilities; `tables` are modules with
    generated parts of pages, and `document` is the one with the OpenAPI document.
    """

    pages: frozenset[str]  # names
    installed: frozenset[str]
    tables: tuple[str, ...]
    contact: str = ""
    document: str = ""
    capabilities: tuple[Capability, ...] = ()

    @classmethod
    def of(cls, surface: Surface) -> "Site":
        return cls.with_capabilities(surface.capabilities, contact_uri(surface.settings.contact))

    @classmethod
    def with_capabilities(cls, capabilities: Sequence[Capability], contact: str = "") -> "Site":
        own = {name for capability in capabilities for name in capability.pages}
        pages = {page.name for page in PAGE_BY_PATH.values() if page.name in own or page.name not in OPTIONAL_PAGES}
        installed = frozenset(capability.name for capability in capabilities)
        return cls(
            frozenset(pages),
            installed,
            tuple(capability.tables for capability in capabilities if capability.tables),
            contact,
            next((capability.document for capability in capabilities if capability.document), ""),
            tuple(capabilities),
        )

    @property
    def groups(self) -> dict[str, tuple[SitePage, ...]]:
        return {name: tuple(page for page in pages if page.name in self.pages) for name, pages in PAGE_GROUPS.items()}

    def has(self, page: SitePage | None) -> TypeGuard[SitePage]:
        return page is not None and page.name in self.pages


# Pages about one capability, which are not there without it (`Capability.pages`).
OPTIONAL_PAGES = frozenset(
    {"changes", "copy", "databases", "everything", "push", "history", "reso", "programs"}
    | {"geojson", "map", "move", "reference", "clients"}
)
PAGE_BY_PATH: dict[str, SitePage] = {page.path: page for pages in PAGE_GROUPS.values() for page in pages}


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "json": "application/json"}
_FILES = (
    *("assets/site.css", "assets/icon.svg", "assets/try.js"),
    *("assets/map.css", "assets/map.js", "assets/map_plane.js", "assets/fields.js", "assets/map_example.json"),
    *("assets/site.js", "assets/examples.js", "assets/search.js", "minisearch/minisearch.js"),
    "us_atlas/county_borders.json",
)


@dataclass(frozen=True)
class SiteAsset:
    path: str
    content_type: str
    body: bytes


@cache
def site_assets() -> dict[str, SiteAsset]:
    """Return all assets by file name, such as `site.css`."""
    return {file.rpartition("/")[2]: _load_asset(file) for file in _FILES}


def _load_asset(file: str) -> SiteAsset:
    body = SITE_FILES.joinpath(file).read_bytes()
    stem, _, extension = file.rpartition("/")[2].rpartition(".")
    digest = xxhash.xxh3_64_hexdigest(body)
    return SiteAsset(f"{DOCS_ROOT}/assets/{stem}.{digest}.{extension}", _TYPES[extension], body)
