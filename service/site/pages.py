"""The pages of the site, in navigation order. Their texts are in `text/`."""

from dataclasses import dataclass
from importlib import resources

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
