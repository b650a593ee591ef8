"""A whole page: the text of the page inside what all pages have in common."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.metadata import version
from string import Template
from typing import TYPE_CHECKING

from service.site.assets import assets
from service.site.changes import changes
from service.site.codes import table
from service.site.dictionary import dictionary, field_groups
from service.site.entity_sets import entity_sets
from service.site.markdown import render
from service.site.pages import FOLDER, GROUPS, MAP, PAGES, REFERENCE, WITH_SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.site.markdown import Section
    from service.site.pages import Page

# What a text says in a line of its own, and what takes the place of it.
DRAWN: dict[str, Callable[[], str]] = {
    "<!-- fields -->": dictionary,
    "<!-- field groups -->": field_groups,
    "<!-- problems -->": table,
    "<!-- changes -->": changes,
    "<!-- entity sets -->": entity_sets,
}


def page_html(page: Page) -> bytes:
    """Return a page as it is sent."""
    rendered = render(_text(page))
    return (
        _template()
        .substitute(
            title=escape(rendered.title),
            version=version("brokerage"),
            navigation=_navigation(page),
            contents=_contents(rendered.sections),
            body=rendered.html,
            turning=_turning(page),
            head=_HEADS[page].substitute(_addresses()) if page in _HEADS else "",
            wide="wide" if page in WITH_SCRIPTS else "",
            **_addresses(),
        )
        .encode()
    )


def _text(page: Page) -> str:
    text = page.text
    for mark, draw in DRAWN.items():
        if mark in text:
            text = text.replace(mark, draw())
    return text


def _addresses() -> dict[str, str]:
    """Return the addresses of the assets by what templates call them, such as `site_css`."""
    return {name.replace(".", "_").replace("-", "_"): asset.path for name, asset in assets().items()}


@cache
def _template() -> Template:
    return Template(FOLDER.joinpath("assets", "page.html").read_text(encoding="utf-8"))


# Ours comes before Swagger UI's script and behind its style; both scripts run before the page is told to be there.
_REFERENCE_HEAD = Template("""<link rel="stylesheet" href="$swagger_ui_css">
<link rel="stylesheet" href="$reference_css">
<script src="$reference_js" defer></script>
<script src="$swagger_ui_bundle_js" defer></script>""")
# The second module is found by its link: no other place can know an address that holds a digest.
_MAP_HEAD = Template("""<link rel="stylesheet" href="$map_css">
<link id="plane" rel="modulepreload" href="$map_plane_js">
<script src="$map_js" type="module"></script>""")
_HEADS = {REFERENCE: _REFERENCE_HEAD, MAP: _MAP_HEAD}


def _navigation(current: Page) -> str:
    return "".join(
        f'<p class="group" id="nav-{group}">{group}</p><ul aria-labelledby="nav-{group}">'
        + "".join(f"<li>{_link(page, page.title, is_current=page is current)}</li>" for page in pages)
        + "</ul>"
        for group, pages in GROUPS.items()
    )


def _link(page: Page, text: str, *, is_current: bool = False, relation: str = "") -> str:
    current = ' aria-current="page"' if is_current else ""
    related = f' rel="{relation}"' if relation else ""
    return f'<a href="{page.path}"{current}{related}>{text}</a>'


def _contents(sections: tuple[Section, ...]) -> str:
    shown = [section for section in sections if section.level == 2]
    if len(shown) < 2:
        return ""
    items = "".join(f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>' for section in shown)
    return f'<nav class="contents" aria-labelledby="contents"><p id="contents">On this page</p><ul>{items}</ul></nav>'


def _turning(page: Page) -> str:
    """Return links to the pages before and after."""
    pages = list(PAGES.values())
    at = pages.index(page)
    before = _link(pages[at - 1], f"← {pages[at - 1].title}", relation="prev") if at else "<span></span>"
    after = _link(pages[at + 1], f"{pages[at + 1].title} →", relation="next") if at + 1 < len(pages) else ""
    return before + after
