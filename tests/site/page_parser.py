"""What a page holds, read by the standard library's parser of HTML."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser

from service.capabilities import installed_capabilities
from service.site.capability import render
from service.site.pages import Site

SITE = Site.with_capabilities(installed_capabilities())

_EMPTY = {"meta", "link", "img", "br", "hr", "input", "wbr"}


class ParsedPage(HTMLParser):
    """The tags, ids, addresses and table rows of a page."""

    def __init__(self, html: str) -> None:
        """Read it whole."""
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.counts[tag] += 1
        if tag not in _EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        given = dict(attrs)
        self.ids += filter(None, [given.get("id")])
        self.addresses += filter(None, [given.get("href"), given.get("src")])

    def handle_endtag(self, tag: str) -> None:
        """Hold that tags close in the order in which they were opened."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add a text to the current cell."""
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


@cache
def parse_page(path: str) -> ParsedPage:
    """Return what is under a path of the site."""
    return ParsedPage(page_html(path))


def page_html(path: str) -> str:
    """Return the HTML under a path of the site."""
    return render(path, SITE)[0].decode()
