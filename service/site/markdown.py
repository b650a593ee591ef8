"""Markdown to HTML: headings with anchors, highlighted code, scrollable tables and code blocks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from service.site.code_examples import ADDRESS, KEY, javascript_example, parse_curl, python_example

_NON_WORD = re.compile(r"[^a-z0-9_]+")
# `tabindex` makes horizontal scrolling reachable by keyboard.
_SCROLLABLE = 'class="scroll" tabindex="0"'
_SHELLS = frozenset({"bash", "sh"})
_KEYS = frozenset({"$KEY", KEY})
_FILLED = re.compile(rf"\$API\b|\$KEY\b|{re.escape(ADDRESS)}|{KEY}")


@dataclass(frozen=True)
class PageSection:
    """A heading: its anchor, title and level, and the text below it up to the next heading, without code blocks."""

    anchor: str
    title: str
    level: int
    text: str


@dataclass(frozen=True)
class RenderedPage:
    """A rendered text: its HTML, and its sections; the first is the page itself."""

    html: str
    sections: tuple[PageSection, ...]

    @property
    def title(self) -> str:
        """The title of the page."""
        return self.sections[0].title


def render_markdown(text: str) -> RenderedPage:
    """Return a text in HTML. Tags in it stay: texts are ours, never a client's."""
    markdown = MarkdownIt("commonmark").enable("table")
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    tokens = markdown.parse(text)
    _add_anchors(tokens)
    return RenderedPage(markdown.renderer.render(tokens, markdown.options, {}), tuple(_sections(tokens)))


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return _NON_WORD.sub("-", title.lower()).strip("-")


def _add_anchors(tokens: Sequence[Token]) -> None:
    """Add an anchor to each heading, and the title of the section to each table."""
    title, is_in_summary = "", False
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            title = _plain(following)
            token.attrSet("id", slug(title))
        elif token.type == "heading_close":
            # A summary is a button, which may hold no link.
            token.meta["anchor"] = "" if is_in_summary else slug(title)
        elif token.type == "html_block":
            is_in_summary = "<summary>" in token.content
        elif token.type == "table_open":
            token.meta["name"] = title
        elif token.type == "th_open":
            token.attrSet("scope", "col")


def _sections(tokens: Sequence[Token]) -> Iterator[PageSection]:
    starts = [at for at, token in enumerate(tokens) if token.type == "heading_open"]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        title = _plain(tokens[start + 1])
        text = " ".join(_plain(token) for token in tokens[start + 3 : end] if token.type == "inline")
        yield PageSection(slug(title), title, int(tokens[start].tag[1:]), text)


def _plain(inline: Token) -> str:
    """Return the text of an inline token, without tags."""
    words = (
        " " if child.type == "softbreak" else child.content
        for child in inline.children or ()
        if child.type != "html_inline"
    )
    return "".join(words)


def _fence(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    """Render code; a curl command that asks the API comes in all languages."""
    token = tokens[at]
    code, language = token.content, token.info.partition(" ")[0]
    request = parse_curl(code) if language in _SHELLS else None
    if request is None:
        return _code(code, language)
    written = {"curl": (code, language)}
    written["Python"] = python_example(request), "python"
    written["JavaScript"] = javascript_example(request), "javascript"
    return f'<div class="examples">{"".join(_code(*each, label) for label, each in written.items())}</div>\n'


def _code(code: str, language: str, label: str = "") -> str:
    shown = escape(code, quote=False)
    if language:
        shown = highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    filled = _FILLED.sub(_mark_filled, shown)
    named = f' data-language="{label}"' if label else ""
    return f'<div class="code"{named}><pre {_SCROLLABLE}><code>{filled}</code></pre></div>\n'


def _mark_filled(found: re.Match[str]) -> str:
    """Mark what a page fills with the service's own address or the reader's key."""
    kind = "key" if found[0] in _KEYS else "address"
    return f'<span data-filled="{kind}">{found[0]}</span>'


def _heading_close(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    token = tokens[at]
    link = f'<a class="anchor" href="#{token.meta["anchor"]}" aria-hidden="true" tabindex="-1">#</a>'
    return f"{link if token.tag != 'h1' and token.meta['anchor'] else ''}</{token.tag}>\n"


def _table_open(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return f'<div {_SCROLLABLE} role="group" aria-label="Table: {escape(tokens[at].meta["name"])}"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


_RULES = {"fence": _fence, "heading_close": _heading_close, "table_open": _table_open, "table_close": _table_close}
