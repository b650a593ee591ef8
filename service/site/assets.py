"""The assets of pages. Each URL contains a digest of the content, so that clients may cache it for ever."""

from dataclasses import dataclass
from functools import cache

import xxhash

from service.site.pages import DOCS_ROOT, SITE_FILES

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
