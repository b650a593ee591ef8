"""The words of a filter: texts, numbers, moments, names and marks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<moment>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})?)"
    r"|(?P<other>[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}|(?:duration|binary|geography|geometry)'[^']*')"
    r"|(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]{1,3})?)"
    r"|(?P<word>[A-Z_][A-Z0-9_]*(?:\.[A-Z_][A-Z0-9_]*)*)"
    r"|(?P<alias>[@$][A-Z_]*)"
    r"|(?P<mark>[(),/:*-])",
    re.ASCII | re.IGNORECASE,
)


class Malformed(Exception):
    """A filter that is none; its text says where and why."""


class Token(NamedTuple):
    """A word of a filter, and where it stands."""

    kind: str
    text: str
    at: int  # characters before it

    @property
    def word(self) -> str:
        """The keyword that it may be, empty for anything else but a word."""
        return self.text.lower() if self.kind == "word" else ""


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a filter, and one for its end; raise Malformed."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Malformed(expected(at, "something that can be read", text[at]))
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], at)
        at = match.end()
    yield Token("end", "the end", at)


def expected(at: int, what: str, instead: str) -> str:
    """Return the sentence for what stands where something else should."""
    return f"at character {at + 1} there is {instead[:40]!r} instead of {what}."
