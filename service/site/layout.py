"""The HTML of a page: its rendered text inside the common template."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.metadata import version
from string import Template
from typing import TYPE_CHECKING

from service.site.assets import site_assets
from service.site.changelog import api_changelog
from service.site.entity_set_tables import entity_set_tables
from service.site.field_tables import field_group_table, field_tables
from service.site.markdown import render_markdown, slug
from service.site.operation_tables import operations, parameters
from service.site.pages import MAP_PAGE, PAGE_BY_PATH, PAGE_GROUPS, REFERENCE_PAGE, SCRIPTED_PAGES, SITE_FILES
from service.site.problem_table import problem_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.site.markdown import PageSection
    from service.site.pages import SitePage

# Placeholders in texts, and the functions that generate their content.
GENERATED_SECTIONS: dict[str, Callable[[], str]] = {
    "<!-- fields -->": field_tables,
    "<!-- field groups -->": field_group_table,
    "<!-- problems -->": problem_table,
    "<!-- changes -->": api_changelog,
    "<!-- entity sets -->": entity_set_tables,
    "<!-- operations -->": operations,
    "<!-- parameters -->": parameters,
}


def page_html(page: SitePage) -> bytes:
    """Return the encoded HTML of a page."""
    rendered = render_markdown(_text(page))
    return (
        _template()
        .substitute(
            title=escape(rendered.title),
            version=version("brokerage-server"),
            navigation=_navigation(page),
            contents=_contents(rendered.sections),
            body=rendered.html,
            turning=_previous_next_links(page),
            head=_PAGE_HEADS[page].substitute(_asset_urls()) if page in _PAGE_HEADS else "",
            wide="wide" if page in SCRIPTED_PAGES else "",
            **_asset_urls(),
        )
        .encode()
    )


def _text(page: SitePage) -> str:
    text = page.text
    for placeholder, generate in GENERATED_SECTIONS.items():
        if placeholder in text:
            text = text.replace(placeholder, generate())
    return text


def _asset_urls() -> dict[str, str]:
    """Return the URLs of the assets by template variable, such as `site_css`."""
    return {name.replace(".", "_").replace("-", "_"): asset.path for name, asset in site_assets().items()}


@cache
def _template() -> Template:
    return Template(SITE_FILES.joinpath("assets", "page.html").read_text(encoding="utf-8"))


# Our script comes before Swagger UI's and our style after it; both scripts run before DOMContentLoaded.
_REFERENCE_HEAD = Template("""<link rel="stylesheet" href="$swagger_ui_css">
<link rel="stylesheet" href="$reference_css">
<script src="$reference_js" defer></script>
<script src="$swagger_ui_bundle_js" defer></script>""")
# The script finds the second module by this link, because its URL contains a digest.
_MAP_HEAD = Template("""<link rel="stylesheet" href="$map_css">
<link id="plane" rel="modulepreload" href="$map_plane_js">
<script src="$map_js" type="module"></script>""")
_PAGE_HEADS = {REFERENCE_PAGE: _REFERENCE_HEAD, MAP_PAGE: _MAP_HEAD}


def _navigation(current: SitePage) -> str:
    return "".join(
        f'<p class="group" id="nav-{slug(group)}">{group}</p><ul aria-labelledby="nav-{slug(group)}">'
        + "".join(f"<li>{_link(page, page.title, is_current=page is current)}</li>" for page in pages)
        + "</ul>"
        for group, pages in PAGE_GROUPS.items()
    )


def _link(page: SitePage, text: str, *, is_current: bool = False, relation: str = "") -> str:
    current = ' aria-current="page"' if is_current else ""
    rel = f' rel="{relation}"' if relation else ""
    return f'<a href="{page.path}"{current}{rel}>{text}</a>'


def _contents(sections: tuple[PageSection, ...]) -> str:
    headings = [section for section in sections if section.level == 2]
    if len(headings) < 2:
        return ""
    items = "".join(f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>' for section in headings)
    return f'<nav class="contents" aria-labelledby="contents"><p id="contents">On this page</p><ul>{items}</ul></nav>'


def _previous_next_links(page: SitePage) -> str:
    """Return links to the previous and the next page."""
    pages = list(PAGE_BY_PATH.values())
    at = pages.index(page)
    before = _link(pages[at - 1], f"← {pages[at - 1].title}", relation="prev") if at else "<span></span>"
    after = _link(pages[at + 1], f"{pages[at + 1].title} →", relation="next") if at + 1 < len(pages) else ""
    return before + after
