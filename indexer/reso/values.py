"""One value of a source, brought to the type of a field of ours.

Every reader takes whatever JSON can hold and returns the value, or None where there is none: null, an empty text, a
masked one (`texts`). It raises LeftOut for what the type cannot hold.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from indexer.reso.left_out import LeftOut, is_writable, shown
from indexer.reso.moments import day, moment, unix
from indexer.reso.texts import given
from mappings.fields import Kind
from mappings.record_type import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[object], object | None]

# The largest of a 32-bit integer, which is what readers of our answers may keep whole numbers in.
LARGEST_NUMBER = 2_147_483_647
# Elasticsearch refuses a document with a keyword of more than 32,766 bytes; a character has four at most.
_LONGEST_SEARCHED = 8_000
_NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
_TRUTHS = {"true": True, "y": True, "yes": True, "1": True, "false": False, "n": False, "no": False, "0": False}
# What names an element of a list that is an object.
_NAMING = ("Name", "Value", "LookupValue")


def text(value: object) -> str | None:
    """Return a text; that of a number is its shortest, of a list its plain elements with commas between."""
    if type(value) is str:
        return given(value)
    if isinstance(value, list):
        return _joined(value)
    return _plain(value)


def _plain(value: object) -> str | None:
    """Return the text of a value that is no list."""
    if isinstance(value, str):
        return given(value)
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    if isinstance(value, int) and is_writable(value):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"
    raise LeftOut(f"is {shown(value)}: no text")


def address(value: object) -> str | None:
    """Return an address, which only a text can be."""
    if value is None or isinstance(value, str):
        return None if value is None else given(value)
    raise LeftOut(f"is {shown(value)}: no address")


def _joined(values: list[object]) -> str | None:
    kept, reasons = _each(values, _plain)
    joined = ", ".join(kept) or None
    if reasons:
        raise LeftOut(reasons[0], joined)
    return joined


def _each(values: list[object], read: Callable[[object], str | None]) -> tuple[list[str], list[str]]:
    """Return what can be kept of elements, and why the others cannot."""
    kept: list[str] = []
    reasons: list[str] = []
    for value in values:
        try:
            one = read(value)
        except LeftOut as left:
            reasons.append(f"has an element that {left.reason}")
        else:
            if one is not None:
                kept.append(one)
    return kept, reasons


def number(value: object) -> float | None:
    """Return a number from 0 to LARGEST_NUMBER, with its fraction, also where it is the text of one."""
    if type(value) is int or type(value) is float:
        _check(value, value)
        return value
    if value is None or (isinstance(value, str) and given(value) is None):
        return None
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) is None:
        raise LeftOut(f"is {shown(value)}: no number")
    exact = Decimal(value.strip())
    _check(exact, value)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _check(size: float | Decimal, value: object) -> None:
    """Refuse a number that is none or out of bounds."""
    if size < 0:
        raise LeftOut(f"is {shown(value)}: less than 0")
    if size > LARGEST_NUMBER:
        raise LeftOut(f"is {shown(value)}: more than {LARGEST_NUMBER}")
    if size != size:  # noqa: PLR0124 - true of what is no number
        raise LeftOut(f"is {shown(value)}: no number")


def boolean(value: object) -> bool | None:
    """Return a truth value, also where it is spelt Y, Yes, 1 or N, No, 0 in any case."""
    if value is None or isinstance(value, bool):
        return value
    spelt = (
        given(value) if isinstance(value, str) else _plain(value) if isinstance(value, int | float) else shown(value)
    )
    if spelt is None:
        return None
    if (truth := _TRUTHS.get(spelt.casefold())) is None:
        raise LeftOut(f"is {shown(value)}: neither true nor false")
    return truth


def untyped(value: object) -> str | int | float | None:
    """Return a number as it is, and everything else as `text` does."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if -LARGEST <= value <= LARGEST:
            return value
        raise LeftOut(f"is {shown(value)}: beyond what a number keeps exactly")
    return text(value)


def names(value: object) -> list[str] | None:
    """Return a list of texts: of a list, of a text with commas, or of an object the members that are true."""
    if type(value) is list and {*map(type, value)} == {str}:
        return [one for text in value if (one := given(text)) is not None] or None
    if isinstance(value, str):
        return [one for part in value.split(",") if (one := given(part)) is not None] or None
    if isinstance(value, dict):
        value = [name for name, truth in value.items() if truth is True] if _is_choice(value) else [value]
    kept, reasons = _each(value if isinstance(value, list) else [value], _name)
    if reasons:
        raise LeftOut(reasons[0], kept or None)
    return kept or None


def _is_choice(value: dict[str, object]) -> bool:
    return all(isinstance(truth, bool) or truth is None for truth in value.values())


def _name(value: object) -> str | None:
    """Return the text of an element, of an object its one member that names it."""
    if isinstance(value, dict):
        naming = [name for name in _NAMING if name in value]
        if len(naming) != 1:
            raise LeftOut(f"is an object without exactly one of {', '.join(_NAMING)}")
        value = value[naming[0]]
    return _plain(value)


_READERS: dict[Kind, Reader] = {
    Kind.STRING: text,
    Kind.DATE: day,
    Kind.DATE_TIME: moment,
    Kind.INTEGER: number,
    Kind.UNIX: unix,
    Kind.NUMBER: number,
    Kind.BOOLEAN: boolean,
    Kind.UNTYPED: untyped,
    Kind.STRINGS: names,
    Kind.UNTYPED_LIST: names,
}


def searched(read: Reader) -> Reader:
    """Return a reader that lets through no text that is too long to search by."""

    def short(value: object) -> object | None:
        if isinstance(found := read(value), str) and len(found) > _LONGEST_SEARCHED:
            raise LeftOut(f"has {len(found)} characters: more than {_LONGEST_SEARCHED}")
        return found

    return short


def reader(kind: Kind) -> Reader:
    """Return the function that brings a value to a kind; KeyError for the kinds that have members of their own."""
    return _READERS[kind]
