"""The tokens of a filter: strings, numbers, timestamps, names and symbols."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN_REGEX = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})?)"
    r"|(?P<other>[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}|(?:duration|binary|geography|geometry)'[^']*')"
    r"|(?P<lookup>[A-Z_][A-Z0-9_]*(?:\.[A-Z_][A-Z0-9_]*)+'(?:[^']|'')*')"
    r"|(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]{1,3})?)"
    r"|(?P<word>[A-Z_][A-Z0-9_]*(?:\.[A-Z_][A-Z0-9_]*)*)"
    r"|(?P<alias>[@$][A-Z_]*)"
    r"|(?P<symbol>[(),/:*-])",
    re.ASCII | re.IGNORECASE,
)


class MalformedFilter(Exception):
    """A filter with a syntax error; the message says where and why."""


class FilterToken(NamedTuple):
    """A token of a filter, and its position."""

    kind: str
    text: str
    offset: int  # characters before it

    @property
    def word(self) -> str:
        """The text of a word in lower case, empty for other tokens."""
        return self.text.lower() if self.kind == "word" else ""


def tokenize(text: str) -> Iterator[FilterToken]:
    """Yield the tokens of a filter, and one for its end; raise MalformedFilter."""
    at = 0
    while at < len(text):
        match = _TOKEN_REGEX.match(text, at)
        if match is None or match.lastgroup is None:
            raise MalformedFilter(expected_message(at, "a valid token", text[at]))
        if match.lastgroup != "space":
            yield FilterToken(match.lastgroup, match[0], at)
        at = match.end()
    yield FilterToken("end", "the end", at)


def expected_message(at: int, expected: str, found: str) -> str:
    """Return the error message for an unexpected token."""
    return f"at character {at + 1} there is {found[:40]!r} instead of {expected}."
