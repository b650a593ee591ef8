"""The guide for operators under `/operating`, on the port of metrics: pages of `docs`, in the layout of `/docs`."""

import asyncio
import posixpath
import re
from dataclasses import asdict
from functools import cache
from html import escape
from pathlib import Path

import orjson
from aiohttp import web

from service.http.responses import CONTENT_POLICY
from service.site.pages import SITE_FILES, site_assets

OPERATING_ROOT = "/operating"
# By group, as files below `docs`; packages contain them below `guide`, next to this module.
OPERATING_PAGES: dict[str, tuple[str, ...]] = {
    "Start": ("operating.md",),
    "Tutorials": (
        "your-own-data.md",
        "operating/keep-current.md",
        "operating/first-partner.md",
        "operating/production.md",
    ),
    "Operate": (
        "operating/install.md",
        "operating/load.md",
        "operating/publish.md",
        "operating/push.md",
        "operating/keys.md",
        "operating/run.md",
        "operating/monitor.md",
        "operating/maintain.md",
    ),
    "How to": ("replicating.md", "operating-a-cluster.md", "backup-and-restore.md", "upgrading.md", "audit.md"),
    "Reference": (
        "operating/record-lines.md",
        "operating/column-maps.md",
        "operating/settings.md",
        "operating/metrics.md",
        "elasticsearch-rights.md",
        "sizing.md",
        "security.md",
        "reliability.md",
    ),
}
_FILE_BY_PATH = {
    OPERATING_ROOT if file == "operating.md" else f"{OPERATING_ROOT}/{Path(file).stem}": file
    for files in OPERATING_PAGES.values()
    for file in files
}
_PATH_BY_FILE = {file: path for path, file in _FILE_BY_PATH.items()}
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n*")
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)#\s]*)(#[\w-]+)?\)")
_TITLE = re.compile(r"(?m)^# (.+)$")
# Of the frame that all pages of the site have.
_ASSETS = ("site.css", "icon.svg", "site.js", "search.js", "minisearch.js")


@cache
def operating_text(file: str) -> str:
    """Return the text of a page, with links for the site: what the guide does not have is named without a link."""
    packaged = SITE_FILES.joinpath("guide", *file.split("/"))
    source = packaged if packaged.is_file() else Path(__file__).parents[2] / "docs" / file
    text = _IMAGE.sub("", source.read_text(encoding="utf-8"))
    return _LINK.sub(lambda link: _site_link(file, *link.groups("")), text)


def _site_link(file: str, name: str, target: str, section: str) -> str:
    if "://" in target or not target:
        return f"[{name}]({target}{section})"
    path = _PATH_BY_FILE.get(posixpath.normpath(posixpath.join(posixpath.dirname(file), target)))
    return f"[{name}]({path}{section})" if path else name


@cache
def operating_page(path: str, *, has_console: bool = True) -> bytes:
    """Return the HTML of a page of the guide."""
    # Markdown and syntax highlighting take most of the import time of the site.
    from service.site.markdown import render_markdown  # noqa: PLC0415
    from service.site.rendering import framed, page_contents  # noqa: PLC0415

    rendered = render_markdown(operating_text(_FILE_BY_PATH[path]))
    return framed(
        rendered,
        {"operators"} if has_console else (),
        home=OPERATING_ROOT,
        product="Brokerage for operators",
        searched="Pages, commands, settings, metrics",
        navigation=_navigation(path),
        contents=page_contents(rendered.sections),
    )


@cache
def operating_search_index() -> bytes:
    """Return what the search of the guide finds: the sections of all pages."""
    from service.site.markdown import render_markdown  # noqa: PLC0415
    from service.site.rendering import SearchEntry, section_url  # noqa: PLC0415

    pages = {path: render_markdown(operating_text(file)) for path, file in _FILE_BY_PATH.items()}
    entries = (
        SearchEntry(section_url(path, section), section.title, page.title, section.text)
        for path, page in pages.items()
        for section in page.sections
    )
    return orjson.dumps([asdict(entry) for entry in entries])


def _navigation(current: str) -> str:
    return "".join(
        f'<p class="group">{group}</p><ul>{"".join(_item(file, current) for file in files)}</ul>'
        for group, files in OPERATING_PAGES.items()
    )


def _item(file: str, current: str) -> str:
    path, title = _PATH_BY_FILE[file], _TITLE.findall(operating_text(file))[0]
    here = ' aria-current="page"' if path == current else ""
    return f'<li><a href="{path}"{here}>{escape(title)}</a></li>'


def add_operating(_: web.Application, app: web.Application) -> None:
    """Add the guide, its search, and the assets that its pages name, to the application of the private port."""

    async def page(request: web.Request) -> web.Response:
        body = await asyncio.to_thread(operating_page, request.path, has_console=_has_console(request.app))
        return web.Response(body=body, headers=_HTML)

    for path in _FILE_BY_PATH:
        app.router.add_get(path, page)
    app.router.add_get(f"{OPERATING_ROOT}/search.json", _search_index)
    for name in _ASSETS:
        app.router.add_get(site_assets()[name].path, _asset)


def _has_console(app: web.Application) -> bool:
    return any(resource.canonical == "/console" for resource in app.router.resources())


_HTML = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": CONTENT_POLICY}


async def _search_index(_: web.Request) -> web.Response:
    return web.Response(body=await asyncio.to_thread(operating_search_index), content_type="application/json")


async def _asset(request: web.Request) -> web.Response:
    asset = next(asset for asset in site_assets().values() if asset.path == request.path)
    return web.Response(body=asset.body, content_type=asset.content_type)
