"""Markdown to HTML, with examples of code in several languages."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
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

from service.site.pages import HOST

# What pages fill with the service's own address and the reader's key.
ADDRESS, KEY = f"{HOST}/v1", "bk_…"
_ADDRESS_VARIABLE, _KEY_VARIABLE = "$API", "$KEY"
_IGNORED_OPTIONS = frozenset({"-s", "-S", "-sS", "-i", "--compressed"})
_VARIABLE = re.compile(r"\$([A-Z]+)")
_LINES_PATH = "/snapshot/"


@dataclass(frozen=True)
class ExampleRequest:
    """A GET request: its URL below the address, its headers, and the other shell variables in them."""

    path: str
    headers: dict[str, str]
    variables: tuple[str, ...]

    @property
    def has_lines(self) -> bool:
        return self.path.startswith(_LINES_PATH)


def parse_curl(command: str) -> ExampleRequest | None:
    """Return the request of a single curl command to the API; None for anything else."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[:1] != ["curl"] or words.count("curl") > 1:
        return None
    url, headers, rest = "", {}, iter(words[1:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word.startswith(_ADDRESS_VARIABLE) and not url:
            url = word.removeprefix(_ADDRESS_VARIABLE).replace("\\$", "$")
        elif word not in _IGNORED_OPTIONS:
            return None
    named = dict.fromkeys(_VARIABLE.findall(" ".join((url, *headers.values()))))
    return ExampleRequest(url, headers, tuple(name for name in named if name != _KEY_VARIABLE[1:])) if url else None


def python_example(request: ExampleRequest) -> str:
    shown = ["print(json.load(response))"]
    if request.has_lines:
        shown = ["for line in response:", "    print(json.loads(line))"]
    lines = [
        "import json",
        "import urllib.request",
        "",
        f'API = "{ADDRESS}"',
        f'KEY = "{KEY}"',
        *(f'{name} = "…"' for name in request.variables),
        f"url = {_python_text(_ADDRESS_VARIABLE + request.path)}",
        f"request = urllib.request.Request(url, headers={{{_members(request.headers, _python_text)}}})",
        "with urllib.request.urlopen(request) as response:",
        *(f"    {line}" for line in shown),
    ]
    return "\n".join(lines) + "\n"


def javascript_example(request: ExampleRequest) -> str:
    """Return the request in JavaScript, with `fetch`; Node runs it as a module, and so do browsers."""
    shown = ["console.log(await response.json());"]
    if request.has_lines:
        shown = [
            'const lines = (await response.text()).trim().split("\\n");',
            "for (const line of lines) console.log(JSON.parse(line));",
        ]
    lines = [
        f'const API = "{ADDRESS}";',
        f'const KEY = "{KEY}";',
        *(f'const {name} = "…";' for name in request.variables),
        f"const url = {_javascript_text(_ADDRESS_VARIABLE + request.path)};",
        f"const response = await fetch(url, {{ headers: {{ {_members(request.headers, _javascript_text)} }} }});",
        "if (!response.ok) throw new Error(`${response.status}: ${(await response.json()).detail}`);",
        *shown,
    ]
    return "\n".join(lines) + "\n"


def _python_text(text: str) -> str:
    """Return a text as a Python expression; a variable alone is its name."""
    if whole := _VARIABLE.fullmatch(text):
        return whole[1]
    inserted = _VARIABLE.sub(r"{\1}", text)
    return json.dumps(text) if inserted == text else 'f"' + inserted + '"'


def _javascript_text(text: str) -> str:
    """Return a text as a JavaScript expression; a variable alone is its name."""
    if whole := _VARIABLE.fullmatch(text):
        return whole[1]
    inserted = _VARIABLE.sub(r"${\1}", text)
    return json.dumps(text) if inserted == text else f"`{inserted}`"


def _members(headers: dict[str, str], text_of: Callable[[str], str]) -> str:
    return ", ".join(f"{json.dumps(name)}: {text_of(value)}" for name, value in headers.items())


_NON_WORD = re.compile(r"[^a-z0-9_]+")
# `tabindex` makes horizontal scrolling reachable by keyboard.
_SCROLLABLE = 'class="scroll" tabindex="0"'
_SHELLS = frozenset({"bash", "sh"})
_FILLED_BY = {"$API": "address", ADDRESS: "address", HOST: "host", "$KEY": "key", KEY: "key"}
_FILLED = re.compile(rf"\$API\b|\$KEY\b|{re.escape(ADDRESS)}|{re.escape(HOST)}|{KEY}")


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
    return _NON_WORD.sub("-", title.lower()).strip("-")


def _add_anchors(tokens: Sequence[Token]) -> None:
    title, is_in_summary, columns = "", False, list[str]()
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
            token.meta["name"], columns = title, []
        elif token.type == "th_open" and following is not None:
            token.attrSet("scope", "col")
            columns.append(_plain(following))
        elif token.type == "tr_open":
            column = iter(columns)
        elif token.type == "td_open":
            # Narrow screens show it instead of the head of the table.
            token.attrSet("data-label", next(column))


def _sections(tokens: Sequence[Token]) -> Iterator[PageSection]:
    starts = [at for at, token in enumerate(tokens) if token.type == "heading_open"]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        title = _plain(tokens[start + 1])
        text = " ".join(_plain(token) for token in tokens[start + 3 : end] if token.type == "inline")
        yield PageSection(slug(title), title, int(tokens[start].tag[1:]), text)


def _plain(inline: Token) -> str:
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
    if language == "json":
        code = json.dumps(json.loads(code), indent=2, ensure_ascii=False)
    request = parse_curl(code) if language in _SHELLS else None
    if request is None:
        return _code(code, language)
    written = {"curl": (code, language)}
    written["Python"] = python_example(request), "python"
    written["JavaScript"] = javascript_example(request), "javascript"
    return f'<div class="examples">{"".join(_code(*example, label) for label, example in written.items())}</div>\n'


def _code(code: str, language: str, label: str = "") -> str:
    shown = escape(code, quote=False)
    if language:
        shown = highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    filled = _FILLED.sub(_mark_filled, shown)
    named = f' data-language="{label}"' if label else ""
    return f'<div class="code"{named}><pre {_SCROLLABLE}><code>{filled}</code></pre></div>\n'


def _mark_filled(found: re.Match[str]) -> str:
    """Mark what a page fills with the service's own address or the reader's key."""
    return f'<span data-filled="{_FILLED_BY[found[0]]}">{found[0]}</span>'


# Where long names may break.
_LONG_WORD = re.compile(r"[\w.]{20,}")
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[._])(?=\w)")


def breakable(text: str) -> str:
    """Return a text in HTML; narrow places may break its long names where a part of them begins."""
    return _LONG_WORD.sub(lambda word: _JOINT.sub("<wbr>", word[0]), escape(text))


def _text(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return breakable(tokens[at].content)


def _code_inline(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return f"<code>{breakable(tokens[at].content)}</code>"


def _heading_close(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    token = tokens[at]
    link = f'<a class="anchor" href="#{token.meta["anchor"]}" aria-hidden="true" tabindex="-1">#</a>'
    return f"{link if token.tag != 'h1' and token.meta['anchor'] else ''}</{token.tag}>\n"


def _table_open(_: RendererHTML, tokens: Sequence[Token], at: int, __: OptionsDict, ___: EnvType) -> str:
    return f'<div {_SCROLLABLE} role="group" aria-label="Table: {escape(tokens[at].meta["name"])}"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


_RULES = {
    "text": _text,
    "code_inline": _code_inline,
    "fence": _fence,
    "heading_close": _heading_close,
    "table_open": _table_open,
    "table_close": _table_close,
}
