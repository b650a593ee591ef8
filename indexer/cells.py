"""From the text of a CSV cell to a JSON value of the kind that a field is declared with."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING

from mappings.fields import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    Scalar = str | int | float | bool

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_INTEGER = 40  # digits: far beyond what is accepted, and short enough for the conversion itself
_TRUTHS = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}


def converter(kind: Kind, form: str | None = None) -> Callable[[str], Scalar]:
    """Return the function from a text that is not empty to a value; it raises ValueError with what the text is not.

    `form` is a format of `strptime` for days and moments, which are ISO 8601 without one.
    """
    if kind is Kind.DATE:
        return lambda text: _moment(text, form).date().isoformat()
    if kind is Kind.DATE_TIME:
        return lambda text: _with_offset(_moment(text, form)).isoformat()
    return _CONVERTERS.get(kind, str)


def _moment(text: str, form: str | None) -> dt.datetime:
    try:
        return dt.datetime.strptime(text, form) if form else dt.datetime.fromisoformat(text)  # noqa: DTZ007 - see below
    except ValueError:
        raise ValueError(f"does not have the form {form}" if form else "is no date of ISO 8601") from None


def _with_offset(moment: dt.datetime) -> dt.datetime:
    """Read a moment without an offset as UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _number(text: str) -> int | float:
    if len(text) <= _LONGEST_INTEGER and _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no number")
    if not math.isfinite(number := float(text)):
        raise ValueError("is out of range")
    return number


def _boolean(text: str) -> bool:
    try:
        return _TRUTHS[text.casefold()]
    except KeyError:
        raise ValueError("is none of true, false, yes, no, y, n, 1, 0") from None


_CONVERTERS: dict[Kind, Callable[[str], Scalar]] = {
    Kind.INTEGER: _number,  # a fraction is rounded and counted behind this, as that of any source
    Kind.UNIX: _number,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
}
