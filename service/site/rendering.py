"""What a page is made of: its text, its layout, the changelog and the index for the search."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator
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
from service.site.markdown import PageSection, RenderedPage, breakable, render_markdown, slug
from service.site.pages import (
    DOCS_ROOT,
    FIELDS_PAGE,
    HOST,
    MAP_PAGE,
    REFERENCE_PAGE,
    SITE_FILES,
    WIDE_PAGES,
    Site,
    SitePage,
    site_assets,
)
from service.site.reference import operation_lists, operation_pages, page_groups
from service.site.tables import (
    field_anchor,
    field_entries,
    field_group_table,
    field_tables,
    field_type,
    operations,
    parameter_tables,
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
}


# Of the table of problems; a code of what is not installed has no section.
_PROBLEM_ROW = re.compile(r"(?m)^\| \d+ \| \[`([\w-]+)`\]\(#\1\) \|.*\n")
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\(/docs/([a-z]+)(?:[/#][\w-]*)?\)")
_OPERATIONS = "<!-- reference -->"
# The pages of the reference have them, if there is one.
_PARAMETERS = "<!-- parameters -->"


@cache
def site_pages(site: Site) -> dict[str, SitePage]:
    """Return the pages of a deployment by path, in the order of the navigation."""
    return {page.path: page for pages in page_groups(site).values() for page in pages}


def page_text(page: SitePage, site: Site) -> str:
    """Return the text of a page, complete, without what is about capabilities that are not installed."""
    text = page.text
    own = [import_module(module).TABLES for module in site.tables]
    for placeholder, generate in chain(GENERATED_SECTIONS.items(), *(tables.items() for tables in own)):
        if placeholder in text:
            text = text.replace(placeholder, generate())
    if _PARAMETERS in text:
        text = text.replace(_PARAMETERS, "" if site.document else f"## Parameters\n\n{parameter_tables()}")
    if _OPERATIONS in text:
        text = text.replace(_OPERATIONS, operation_lists(site))
    text = text_with(site.installed, text)
    text = _PROBLEM_ROW.sub(lambda row: row[0] if f"## `{row[1]}`" in text else "", text)
    return _PAGE_LINK.sub(lambda link: link[0] if link[2] in site.pages else link[1], text)


NOT_FOUND_PAGE = SitePage(
    "not-found",
    "Page not found",
    """# Page not found

There is no page at this address. It may have moved.

<p><button class="go" type="button" data-search hidden>Search the documentation</button></p>

- [Get started](/docs)
- [Choose how to read the data](/docs/choose)
- [API reference](/docs/reference)
- [Field dictionary](/docs/fields)
""",
)


# Pages with more headings list the main ones.
_MAX_CONTENTS = 24
CONTENTS_BUTTON = '<button class="contents-button" popovertarget="page-contents">On this page</button>'


def page_html(page: SitePage, site: Site) -> bytes:
    rendered = render_markdown(page_text(page, site))
    return framed(
        rendered,
        {*site.installed, "partners"},
        home=DOCS_ROOT,
        product="Brokerage API",
        searched="Pages, fields, parameters, problems",
        navigation=_navigation(page, site),
        contents="" if page in WIDE_PAGES else page_contents(rendered.sections),
        turning=_previous_next_links(page, site),
        head=_head(page),
        wide="wide" if page in WIDE_PAGES else "",
        alternate="" if page is NOT_FOUND_PAGE else _ALTERNATE.substitute(path=page.markdown_path),
        contact=f' · <a href="{escape(site.contact)}">Contact</a>' if site.contact else "",
    )


# What few pages have.
_OPTIONAL = {"turning": "", "head": "", "wide": "", "alternate": "", "contact": ""}


def framed(rendered: RenderedPage, parts: Collection[str], **values: str) -> bytes:
    """Return the HTML of a page. `parts` are capabilities, and `partners` or `operators`: what the frame has."""
    return (
        Template(text_with(parts, _template()))
        .substitute(
            _OPTIONAL | values | asset_urls(),
            title=escape(rendered.title),
            version=version("brokerage-server"),
            contents_button=CONTENTS_BUTTON if values["contents"] else "",
            body=rendered.html,
        )
        .encode()
    )


def asset_urls() -> dict[str, str]:
    """Return the URLs of the assets by template variable, such as `site_css`."""
    return {name.replace(".", "_").replace("-", "_"): asset.path for name, asset in site_assets().items()}


@cache
def _template() -> str:
    return SITE_FILES.joinpath("assets", "page.html").read_text(encoding="utf-8")


# The script finds the second module by this link, because its URL contains a digest.
_MAP_HEAD = Template("""<link rel="stylesheet" href="$map_css">
<link id="plane" rel="modulepreload" href="$map_plane_js">
<script id="map-script" src="$map_js" type="module" data-example="$map_example_json"
  data-borders="$county_borders_json"></script>""")
_FIELDS_HEAD = Template('<script src="$fields_js" type="module"></script>')
_ALTERNATE = Template('<link rel="alternate" href="$path" type="text/markdown">')
_OPERATION_HEAD = Template('<script src="$try_js" type="module"></script>')


def _head(page: SitePage) -> str:
    """Return what only this page loads."""
    heads = {MAP_PAGE: _MAP_HEAD, FIELDS_PAGE: _FIELDS_HEAD}
    head = _OPERATION_HEAD if page.path.startswith(f"{REFERENCE_PAGE.path}/") else heads.get(page)
    return head.substitute(asset_urls()) if head else ""


def _navigation(current: SitePage, site: Site) -> str:
    return "".join(
        f'<p class="group" id="nav-{slug(group)}">{group}</p><ul aria-labelledby="nav-{slug(group)}">'
        + "".join(
            f"<li>{_link(page, page.title, is_current=page == current)}{_inner(page, current, site)}</li>"
            for page in pages
        )
        + "</ul>"
        for group, pages in site.groups.items()
    )


def _inner(page: SitePage, current: SitePage, site: Site) -> str:
    """Return the list of operations below the reference, while a reader is there."""
    operations = operation_pages(site) if page == REFERENCE_PAGE else ()
    if (current != page and current not in operations) or not operations:
        return ""
    links = (f"<li>{_link(one, one.title, is_current=one == current)}</li>" for one in operations)
    return f"<ul>{''.join(links)}</ul>"


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
        f'<li class="level-{section.level}"><a href="#{section.anchor}">{breakable(section.title)}</a></li>'
        for section in listed
    )
    return (
        '<nav id="page-contents" class="contents" popover aria-labelledby="contents"><p id="contents">On this page</p>'
        f"<ul>{items}</ul></nav>"
    )


def _previous_next_links(page: SitePage, site: Site) -> str:
    pages = [*site_pages(site).values()]
    if page not in pages:
        return ""
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
    for page in site_pages(site).values():
        text = page_text(page, site)
        # An operation is found as a whole.
        for section in render_markdown(text.partition("\n## ")[0] if page.generated else text).sections:
            # Fields are entries of their own.
            text = "" if page is FIELDS_PAGE else section.text
            words = searched.get(page.name, "") if section.level == 1 else ""
            yield SearchEntry(section_url(page.path, section), section.title, page.title, text, words)


def section_url(path: str, section: PageSection) -> str:
    return f"{path}#{section.anchor}" if section.level > 1 else path


def _fields() -> Iterator[SearchEntry]:
    for resource, path, field in field_entries():
        url = f"{FIELDS_PAGE.path}#{field_anchor(resource, path)}"
        note = f"{field_type(field)}. {field.note}".strip()
        yield SearchEntry(url, path, f"Field of {resource_title(resource).lower()}", note)
