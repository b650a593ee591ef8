"""What a page is made of: its text, its layout, the changelog and the index for the search."""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from string import Template

import orjson

from service.capability import text_with
from service.site.client_wheel import CLIENT_PATH, client_wheel_name
from service.site.markdown import HOST, PageSection, render_markdown, slug
from service.site.pages import (
    FIELDS_PAGE,
    MAP_PAGE,
    PAGE_BY_PATH,
    REFERENCE_PAGE,
    SITE_FILES,
    WIDE_PAGES,
    Site,
    SitePage,
    site_assets,
)
from service.site.tables import (
    field_anchor,
    field_entries,
    field_group_table,
    field_tables,
    field_type,
    operations,
    parameters,
    problem_table,
    resource_title,
)

CHANGELOG_FILE = "CHANGELOG.md"
_RELEASE = re.compile(r"(?m)^## (.+)$")
_API_SECTION = re.compile(r"(?ms)^### API\n(.*?)(?=^#|\Z)")
_FOR_OPERATORS = re.compile(r" \*reindex\*[^\n]*")


def api_changelog() -> str:
    """Return a heading and the section for partners of each release that has one, without what operators rebuild."""
    _, *parts = _RELEASE.split(_changelog())
    releases = zip(parts[::2], map(_API_SECTION.search, parts[1::2]), strict=True)
    return "\n".join(f"## {name}\n\n{_FOR_OPERATORS.sub('', section[1])}" for name, section in releases if section)


def _changelog() -> str:
    """Return the changelog file: packages contain it next to this module, a checkout at its root."""
    packaged = SITE_FILES.joinpath(CHANGELOG_FILE)
    file = packaged if packaged.is_file() else Path(__file__).parents[2] / CHANGELOG_FILE
    return file.read_text(encoding="utf-8")


# Placeholders in texts, and the functions that generate their content.
GENERATED_SECTIONS: dict[str, Callable[[], str]] = {
    "<!-- client wheel -->": lambda: f"{HOST}{CLIENT_PATH}/{client_wheel_name()}",
    "<!-- fields -->": field_tables,
    "<!-- field groups -->": field_group_table,
    "<!-- problems -->": problem_table,
    "<!-- changes -->": api_changelog,
    "<!-- operations -->": operations,
    "<!-- parameters -->": parameters,
}


# Of the table of problems; a code of what is not installed has no section.
_PROBLEM_ROW = re.compile(r"(?m)^\| \d+ \| \[`([\w-]+)`\]\(#\1\) \|.*\n")
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\(/docs/([a-z]+)(?:#[\w-]*)?\)")


def page_text(page: SitePage, site: Site) -> str:
    """Return the text of a page, complete, without what is about capabilities that are not installed."""
    text = page.text
    own = [import_module(module).TABLES for module in site.tables]
    for placeholder, generate in chain(GENERATED_SECTIONS.items(), *(tables.items() for tables in own)):
        if placeholder in text:
            text = text.replace(placeholder, generate())
    text = text_with(site.installed, text)
    text = _PROBLEM_ROW.sub(lambda row: row[0] if f"## `{row[1]}`" in text else "", text)
    return _PAGE_LINK.sub(lambda link: link[0] if link[2] in site.pages else link[1], text)


# Pages with more headings list the main ones.
_MAX_CONTENTS = 24
CONTENTS_BUTTON = '<button class="contents-button" popovertarget="page-contents">On this page</button>'


def page_html(page: SitePage, site: Site) -> bytes:
    rendered = render_markdown(page_text(page, site))
    contents = "" if page in WIDE_PAGES else page_contents(rendered.sections)
    return (
        Template(text_with(site.installed, _template()))
        .substitute(
            title=escape(rendered.title),
            version=version("brokerage-server"),
            navigation=_navigation(page, site),
            contents=contents,
            contents_button=CONTENTS_BUTTON if contents else "",
            body=rendered.html,
            turning=_previous_next_links(page, site),
            head=_PAGE_HEADS[page].substitute(asset_urls()) if page in _PAGE_HEADS else "",
            wide="wide" if page in WIDE_PAGES else "",
            markdown=page.markdown_path,
            contact=f' · <a href="{escape(site.contact)}">Contact</a>' if site.contact else "",
            **asset_urls(),
        )
        .encode()
    )


def asset_urls() -> dict[str, str]:
    """Return the URLs of the assets by template variable, such as `site_css`."""
    return {name.replace(".", "_").replace("-", "_"): asset.path for name, asset in site_assets().items()}


@cache
def _template() -> str:
    return SITE_FILES.joinpath("assets", "page.html").read_text(encoding="utf-8")


# Our script comes before Swagger UI's and our style after it; both scripts run before DOMContentLoaded.
_REFERENCE_HEAD = Template("""<link rel="stylesheet" href="$swagger_ui_css">
<link rel="stylesheet" href="$reference_css">
<script src="$reference_js" defer></script>
<script src="$swagger_ui_bundle_js" defer></script>""")
# The script finds the second module by this link, because its URL contains a digest.
_MAP_HEAD = Template("""<link rel="stylesheet" href="$map_css">
<link id="plane" rel="modulepreload" href="$map_plane_js">
<script id="map-script" src="$map_js" type="module" data-example="$map_example_json"></script>""")
_FIELDS_HEAD = Template('<script src="$fields_js" type="module"></script>')
_PAGE_HEADS = {REFERENCE_PAGE: _REFERENCE_HEAD, MAP_PAGE: _MAP_HEAD, FIELDS_PAGE: _FIELDS_HEAD}


def _navigation(current: SitePage, site: Site) -> str:
    return "".join(
        f'<p class="group" id="nav-{slug(group)}">{group}</p><ul aria-labelledby="nav-{slug(group)}">'
        + "".join(f"<li>{_link(page, page.title, is_current=page is current)}</li>" for page in pages)
        + "</ul>"
        for group, pages in site.groups.items()
    )


def _link(page: SitePage, text: str, *, is_current: bool = False, relation: str = "") -> str:
    current = ' aria-current="page"' if is_current else ""
    rel = f' rel="{relation}"' if relation else ""
    return f'<a href="{page.path}"{current}{rel}>{text}</a>'


def page_contents(sections: tuple[PageSection, ...]) -> str:
    """Return the contents at the side of a page, which a button opens on narrow screens."""
    below = sections[1:]
    deepest = 3 if len(below) <= _MAX_CONTENTS else 2
    listed = [section for section in below if section.level <= deepest]
    if len(listed) < 2:
        return ""
    items = "".join(
        f'<li class="level-{section.level}"><a href="#{section.anchor}">{escape(section.title)}</a></li>'
        for section in listed
    )
    return (
        '<nav id="page-contents" class="contents" popover aria-labelledby="contents"><p id="contents">On this page</p>'
        f"<ul>{items}</ul></nav>"
    )


def _previous_next_links(page: SitePage, site: Site) -> str:
    pages = [listed for listed in PAGE_BY_PATH.values() if site.has(listed)]
    at = pages.index(page)
    before = _link(pages[at - 1], f"← {pages[at - 1].title}", relation="prev") if at else "<span></span>"
    after = _link(pages[at + 1], f"{pages[at + 1].title} →", relation="next") if at + 1 < len(pages) else ""
    return before + after


@dataclass(frozen=True)
class SearchEntry:
    """A place that a search can find: its URL, title, page or resource, text, and the words of the page."""

    url: str
    title: str
    group: str
    text: str
    words: str = ""


@cache
def encoded_search_index(site: Site) -> bytes:
    return orjson.dumps([asdict(entry) for entry in (*_sections(site), *_fields())])


def _sections(site: Site) -> Iterator[SearchEntry]:
    searched: dict[str, str] = tomllib.loads(SITE_FILES.joinpath("search_words.toml").read_text(encoding="utf-8"))
    for page in filter(site.has, PAGE_BY_PATH.values()):
        for section in render_markdown(page_text(page, site)).sections:
            # Fields are entries of their own.
            text = "" if page is FIELDS_PAGE else section.text
            anchor, words = (f"#{section.anchor}", "") if section.level > 1 else ("", searched.get(page.name, ""))
            yield SearchEntry(f"{page.path}{anchor}", section.title, page.title, text, words)


def _fields() -> Iterator[SearchEntry]:
    for resource, path, field in field_entries():
        url = f"{FIELDS_PAGE.path}#{field_anchor(resource, path)}"
        note = f"{field_type(field)}. {field.note}".strip()
        yield SearchEntry(url, path, f"Field of {resource_title(resource).lower()}", note)
