"""What pages load. The digest of each stands in its address, so that clients may keep it for good."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import xxhash

from service.site.pages import FOLDER, ROOT

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = (
    *("assets/site.css", "assets/icon.svg", "assets/reference.css", "assets/reference.js"),
    *("assets/map.css", "assets/map.js", "assets/map_plane.js"),
)
_SWAGGER_UI = ("swagger_ui/swagger-ui.css", "swagger_ui/swagger-ui-bundle.js")


@dataclass(frozen=True)
class Asset:
    """One file: its address, its content type and its bytes."""

    path: str
    content_type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return all by file name, such as `site.css`."""
    return {file.rpartition("/")[2]: _read(file) for file in (*_FILES, *_SWAGGER_UI)}


def _read(file: str) -> Asset:
    body = FOLDER.joinpath(file).read_bytes()
    stem, _, ending = file.rpartition("/")[2].rpartition(".")
    digest = xxhash.xxh3_64_hexdigest(body)
    return Asset(f"{ROOT}/assets/{stem}.{digest}.{ending}", _TYPES[ending], body)
