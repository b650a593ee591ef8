"""Markdown to HTML: headings with anchors, highlighted code, scrollable tables and code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

_NON_WORD = re.compile(r"[^a-z0-9_]+")
# `tabindex` makes horizontal scrolling reachable by keyboard.
_SCROLLABLE = 'class="scroll" tabindex="0"'


@dataclass(frozen=True)
class PageSection:
    """A heading below the page title: its anchor, text and level."""

    anchor: str
    title: str
    level: int


@dataclass(frozen=True)
class RenderedPage:
    """A rendered text: its HTML, title and sections."""

    html: str
    title: str
    sections: tuple[PageSection, ...]


def render_markdown(text: str) -> RenderedPage:
    """Return a text in HTML. Tags in it stay: texts are ours, never a client's."""
    markdown = MarkdownIt("commonmark", {"highlight": _highlighted}).enable("table")
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    tokens = markdown.parse(text)
    title, *sections = _add_anchors(tokens)
    return RenderedPage(markdown.renderer.render(tokens, markdown.options, {}), title.title, tuple(sections))


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return _NON_WORD.sub("-", title.lower()).strip("-")


def _add_anchors(tokens: Sequence[Token]) -> Iterator[PageSection]:
    """Add an anchor to each heading and the section title to each table; yield the sections."""
    section = None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            title = "".join(child.content for child in following.children or ())
            section = PageSection(slug(title), title, int(token.tag[1:]))
            token.attrSet("id", section.anchor)
            yield section
        elif token.type == "heading_close" and section is not None:
            token.meta["anchor"] = section.anchor
        elif token.type == "table_open" and section is not None:
            token.meta["name"] = section.title
        elif token.type == "th_open":
            token.attrSet("scope", "col")


def _highlighted(code: str, language: str, _: str) -> str:
    if not language:
        return f"<pre {_SCROLLABLE}><code>{escape(code)}</code></pre>"
    formatter = HtmlFormatter(nowrap=True)
    return f"<pre {_SCROLLABLE}><code>{highlight(code, get_lexer_by_name(language), formatter)}</code></pre>"


def _heading_close(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    token = tokens[at]
    link = f'<a class="anchor" href="#{token.meta["anchor"]}" aria-hidden="true" tabindex="-1">#</a>'
    return f"{link if token.tag != 'h1' else ''}</{token.tag}>\n"


def _table_open(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return f'<div {_SCROLLABLE} role="group" aria-label="Table: {escape(tokens[at].meta["name"])}"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


_RULES = {"heading_close": _heading_close, "table_open": _table_open, "table_close": _table_close}
