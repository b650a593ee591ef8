"""The pages of the site, in the order in which they are listed and turned over. Their texts are in `text/`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

ROOT = "/docs"
FOLDER = resources.files("service.site")


@dataclass(frozen=True)
class Page:
    """One page: what follows `/docs` in its path, and what lists call it. `name` is also that of its text."""

    name: str
    title: str

    @property
    def path(self) -> str:
        """The path of the page."""
        return ROOT if self is START else f"{ROOT}/{self.name}"

    @property
    def text(self) -> str:
        """The Markdown that it is made from."""
        return FOLDER.joinpath("text", f"{self.name}.md").read_text(encoding="utf-8")


START = Page("start", "Get started")
REFERENCE = Page("reference", "Interactive reference")
MAP = Page("map", "Map of listings")
# They load scripts, which ask the service, and take the whole width.
WITH_SCRIPTS = frozenset({REFERENCE, MAP})

GROUPS: dict[str, tuple[Page, ...]] = {
    "Begin": (
        START,
        Page("keys", "Keys and companies"),
        Page("parameters", "Operations and parameters"),
    ),
    "Guides": (
        Page("walk", "Walk a whole feed"),
        Page("sync", "Stay in sync"),
        Page("changes", "Changes, snapshots, digests"),
        Page("copy", "Keep a copy"),
        Page("reso", "RESO Web API"),
        Page("resume", "Resume"),
        Page("timestamps", "What each timestamp means"),
        Page("errors", "Errors and retries"),
        Page("limits", "Limits"),
        Page("transfer", "Compression and caching"),
        Page("geojson", "GeoJSON"),
        Page("clients", "Typed clients"),
    ),
    "Reference": (
        REFERENCE,
        MAP,
        Page("fields", "Field dictionary"),
        Page("problems", "Problem codes"),
        Page("changelog", "Changelog"),
    ),
}
PAGES: dict[str, Page] = {page.path: page for pages in GROUPS.values() for page in pages}
