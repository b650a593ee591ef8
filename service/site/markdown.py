"""From Markdown to HTML: headings that can be linked to, code in colours, tables and code that scroll by themselves."""

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

_NO_WORD = re.compile(r"[^a-z0-9_]+")
# A line that must be scrolled sideways is reached by the keyboard too.
_SCROLLED = 'class="scroll" tabindex="0"'


@dataclass(frozen=True)
class Section:
    """A heading below the page's own: its anchor, its text, its level."""

    anchor: str
    title: str
    level: int


@dataclass(frozen=True)
class Rendered:
    """A text in HTML, its first heading and its sections."""

    html: str
    title: str
    sections: tuple[Section, ...]


def render(text: str) -> Rendered:
    """Return a text in HTML. Tags in it stay: texts are ours, never a client's."""
    markdown = MarkdownIt("commonmark", {"highlight": _coloured}).enable("table")
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    tokens = markdown.parse(text)
    title, *sections = _anchored(tokens)
    return Rendered(markdown.renderer.render(tokens, markdown.options, {}), title.title, tuple(sections))


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return _NO_WORD.sub("-", title.lower()).strip("-")


def _anchored(tokens: Sequence[Token]) -> Iterator[Section]:
    """Give each heading its anchor and each table the name of the section that it stands in; yield the sections."""
    section = None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            title = "".join(child.content for child in following.children or ())
            section = Section(slug(title), title, int(token.tag[1:]))
            token.attrSet("id", section.anchor)
            yield section
        elif token.type == "heading_close" and section is not None:
            token.meta["anchor"] = section.anchor
        elif token.type == "table_open" and section is not None:
            token.meta["name"] = section.title
        elif token.type == "th_open":
            token.attrSet("scope", "col")


def _coloured(code: str, language: str, _: str) -> str:
    if not language:
        return f"<pre {_SCROLLED}><code>{escape(code)}</code></pre>"
    formatter = HtmlFormatter(nowrap=True)
    return f"<pre {_SCROLLED}><code>{highlight(code, get_lexer_by_name(language), formatter)}</code></pre>"


def _heading_close(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    token = tokens[at]
    link = f'<a class="anchor" href="#{token.meta["anchor"]}" aria-hidden="true" tabindex="-1">#</a>'
    return f"{link if token.tag != 'h1' else ''}</{token.tag}>\n"


def _table_open(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return f'<div {_SCROLLED} role="group" aria-label="Table: {escape(tokens[at].meta["name"])}"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


_RULES = {"heading_close": _heading_close, "table_open": _table_open, "table_close": _table_close}
