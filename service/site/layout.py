"""The HTML of a page: its rendered text inside the common template."""

from functools import cache
from html import escape
from importlib.metadata import version
from string import Template

from service.site.assets import site_assets
from service.site.markdown import PageSection, render_markdown, slug
from service.site.page_text import page_text
from service.site.pages import (
    FIELDS_PAGE,
    MAP_PAGE,
    PAGE_BY_PATH,
    PAGE_GROUPS,
    REFERENCE_PAGE,
    SITE_FILES,
    WIDE_PAGES,
    SitePage,
)

# Pages with more headings list the main ones.
_MAX_CONTENTS = 24
_CONTENTS_BUTTON = '<button class="contents-button" popovertarget="page-contents">On this page</button>'


def page_html(page: SitePage, contact: str = "") -> bytes:
    """Return the encoded HTML of a page; `contact` is the URI of the operator's contact."""
    rendered = render_markdown(page_text(page))
    contents = "" if page in WIDE_PAGES else _contents(rendered.sections)
    return (
        _template()
        .substitute(
            title=escape(rendered.title),
            version=version("brokerage-server"),
            navigation=_navigation(page),
            contents=contents,
            contents_button=_CONTENTS_BUTTON if contents else "",
            body=rendered.html,
            turning=_previous_next_links(page),
            head=_PAGE_HEADS[page].substitute(_asset_urls()) if page in _PAGE_HEADS else "",
            wide="wide" if page in WIDE_PAGES else "",
            markdown=page.markdown_path,
            contact=f' · <a href="{escape(contact)}">Contact</a>' if contact else "",
            **_asset_urls(),
        )
        .encode()
    )


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
<script id="map-script" src="$map_js" type="module" data-example="$map_example_json"></script>""")
_FIELDS_HEAD = Template('<script src="$fields_js" type="module"></script>')
_PAGE_HEADS = {REFERENCE_PAGE: _REFERENCE_HEAD, MAP_PAGE: _MAP_HEAD, FIELDS_PAGE: _FIELDS_HEAD}


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


def _previous_next_links(page: SitePage) -> str:
    """Return links to the previous and the next page."""
    pages = list(PAGE_BY_PATH.values())
    at = pages.index(page)
    before = _link(pages[at - 1], f"← {pages[at - 1].title}", relation="prev") if at else "<span></span>"
    after = _link(pages[at + 1], f"{pages[at + 1].title} →", relation="next") if at + 1 < len(pages) else ""
    return before + after
