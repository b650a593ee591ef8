"""The words of a $filter expression."""

import re
from dataclasses import dataclass
from typing import Any

from tests.reso.server.timestamps import to_microseconds


class BadFilter(Exception):
    """A $filter that the server does not understand; the message says why."""


@dataclass(frozen=True)
class FilterToken:
    """One word: `kind` is a group of the pattern below, `value` the value of a literal."""

    kind: str
    text: str
    value: Any = None


# Of the alternatives the first that fits counts: a moment begins like a date, a date like a number.
_PATTERN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>'(?:[^']|'')*')
    |(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))
    |(?P<date>\d{4}-\d\d-\d\d)
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>[(),])""",
    re.VERBOSE,
)
_WORDS = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}
LITERALS = frozenset({"string", "moment", "date", "number", "boolean", "null"})


def tokenize(text: str) -> list[FilterToken]:
    """Return the words, without the space between them."""
    found, at = [], 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            msg = f"unexpected at {at}: {text[at : at + 20]}"
            raise BadFilter(msg)
        at = match.end()
        found.append(_token(str(match.lastgroup), match.group()))
    return [token for token in found if token.kind != "space"]


def _token(kind: str, text: str) -> FilterToken:
    if kind == "word":
        kind, value = _WORDS.get(text, ("word", None))
        return FilterToken(kind, text, value)
    if kind == "string":
        return FilterToken(kind, text, text[1:-1].replace("''", "'"))
    if kind == "number":
        return FilterToken(kind, text, float(text) if set(text) & set(".eE") else int(text))
    if kind == "moment":
        return FilterToken(kind, text, _moment(text))
    return FilterToken(kind, text, text)


def _moment(text: str) -> int:
    if (found := to_microseconds(text)) is None:
        msg = f"no such moment: {text}"
        raise BadFilter(msg)
    return found
