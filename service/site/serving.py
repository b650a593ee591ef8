"""`/docs` and what is below it: made when it is first asked for, kept packed, for everybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from service.encoding.negotiation import Coding, chosen
from service.errors import NotFound
from service.packed import Packed, packed
from service.site.pages import PAGES, ROOT, WITH_SCRIPTS
from service.slashes import tidy

if TYPE_CHECKING:
    from aiohttp import web

PATHS = (ROOT, ROOT + "/{name:.*}")

_PAGE_SECONDS = 300
_KEPT_FOR_GOOD = "public, max-age=31536000, immutable"
# Nothing but ours, no frame round it, nothing sent anywhere.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# Swagger UI and the map ask the service, and so does the console.
POLICY_WITH_SCRIPTS = f"{_POLICY}; script-src 'self'; connect-src 'self'"


class Site:
    """Answers pages and what they load."""

    def __init__(self) -> None:
        """Make nothing yet: most processes are never asked for a page."""
        self._packed: dict[tuple[str, Coding], Packed] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a page, packed as the client asked; 304 to whom it is known. Raise NotFound for all else."""
        key = tidy(request.path), chosen(request.headers)
        found = self._packed.get(key)
        if found is None:
            # Files are read and pages drawn: milliseconds in which other requests go on.
            found = self._packed[key] = await asyncio.to_thread(_pack, *key)
        return found.answer(request)


def _pack(path: str, coding: Coding) -> Packed:
    body, content_type, headers = _made(path)
    return packed(body, coding, {**headers, "Content-Type": f"{content_type}; charset=utf-8"})


def _made(path: str) -> tuple[bytes, str, dict[str, str]]:
    """Return the body under a path, its type and its headers. Paths are looked up, never put together."""
    # Markdown and the colouring of code cost a start more than everything else of the site.
    from service.site.assets import assets  # noqa: PLC0415
    from service.site.layout import page_html  # noqa: PLC0415

    if (page := PAGES.get(path)) is not None:
        policy = POLICY_WITH_SCRIPTS if page in WITH_SCRIPTS else _POLICY
        kept = f"public, max-age={_PAGE_SECONDS}"
        return page_html(page), "text/html", {"Cache-Control": kept, "Content-Security-Policy": policy}
    for asset in assets().values():
        if asset.path == path:
            return asset.body, asset.content_type, {"Cache-Control": _KEPT_FOR_GOOD}
    raise NotFound(f"There is no such page in the documentation, which begins at {ROOT}.")
