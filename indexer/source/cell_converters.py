"""Conversion of a CSV cell's text to a JSON value of the field's declared kind."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING

from mappings.fields import FieldKind

if TYPE_CHECKING:
    from collections.abc import Callable

    Scalar = str | int | float | bool

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MAX_INTEGER_DIGITS = 40  # far beyond the accepted range, and cheap to convert
_BOOLEANS = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}


def cell_converter(kind: FieldKind, date_format: str | None = None) -> Callable[[str], Scalar]:
    """Return the function that converts a non-empty text; its ValueError completes "the text ...".

    `date_format` is the `strptime` format of dates and date-times, ISO 8601 if absent.
    """
    if kind is FieldKind.DATE:
        return lambda text: _date_time(text, date_format).date().isoformat()
    if kind is FieldKind.DATE_TIME:
        return lambda text: _with_offset(_date_time(text, date_format)).isoformat()
    return _CONVERTERS.get(kind, str)


def _date_time(text: str, date_format: str | None) -> dt.datetime:
    try:
        if date_format:
            return dt.datetime.strptime(text, date_format)  # noqa: DTZ007 - see _with_offset
        return dt.datetime.fromisoformat(text)
    except ValueError:
        reason = f"does not match the format {date_format}" if date_format else "is not an ISO 8601 date"
        raise ValueError(reason) from None


def _with_offset(value: dt.datetime) -> dt.datetime:
    """Interpret a date-time without an offset as UTC."""
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _number(text: str) -> int | float:
    if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a number")
    if not math.isfinite(number := float(text)):
        raise ValueError("is out of range")
    return number


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.casefold()]
    except KeyError:
        raise ValueError("is not one of true, false, yes, no, y, n, 1, 0") from None


_CONVERTERS: dict[FieldKind, Callable[[str], Scalar]] = {
    FieldKind.INTEGER: _number,  # RecordNormalizer rounds and counts fractions, whatever the source
    FieldKind.UNIX: _number,
    FieldKind.NUMBER: _number,
    FieldKind.BOOLEAN: _boolean,
}
