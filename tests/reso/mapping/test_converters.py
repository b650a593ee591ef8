"""What each kind of field makes of a value, and with which words it leaves one out."""

import math
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.reso.mapping.values import UnmappableValue, converter_for, limit_searchable, to_text
from mappings.fields import FieldKind
from tests.reso.world.invalid_values import VALUES

SINGLE = [kind for kind in FieldKind if kind not in {FieldKind.OBJECT, FieldKind.OBJECTS}]
NUMBERS = (FieldKind.INTEGER, FieldKind.NUMBER)
LISTS = (FieldKind.STRINGS, FieldKind.UNTYPED_LIST)
TIMES = (FieldKind.DATE, FieldKind.DATE_TIME, FieldKind.UNIX)
BOOLEAN, STRING, UNTYPED = (FieldKind.BOOLEAN,), (FieldKind.STRING,), (FieldKind.UNTYPED,)
DATE, DATE_TIME, UNIX = ((kind,) for kind in TIMES)


def convert(kind: FieldKind, value: object) -> tuple[object, str]:
    """Return what is kept of a value, and the reason why something is not."""
    try:
        return converter_for(kind)(value), ""
    except UnmappableValue as left:
        return left.partial, left.reason


# What is read of values, by the kinds of their fields.
_READ: list[tuple[Sequence[FieldKind], list[tuple[Any, Any]]]] = [
    # Nothing, and what is masked.
    (SINGLE, [(nothing, None) for nothing in (None, "", "  ", "***", " ******** ", "\x00")]),
    (STRING, [(kept, kept) for kept in ("**", "* * *", "***a", "a***")]),
    (NUMBERS, [(0, 0), (7, 7), (0.25, 0.25), (2147483647, 2147483647), ("0", 0), ("12", 12), ("12.50", 12.5)]),
    (NUMBERS, [(" 3 ", 3), ("+4", 4), ("1e3", 1000), (".5", 0.5), ("2.", 2), ("2147483647.0", 2147483647)]),
    (NUMBERS, [("1E-999", 0.0)]),
    (BOOLEAN, [(yes, True) for yes in (True, "true", "TRUE", "Y", "y", "Yes", "yEs", "1", 1, 1.0, " y ")]),
    (BOOLEAN, [(no, False) for no in (False, "false", "False", "N", "n", "No", "NO", "0", 0, 0.0, -0.0)]),
    (STRING, [(47.5, "47.5"), (47.0, "47"), (-122.25, "-122.25"), (1e-7, "0.0000001"), (1e22, "1" + 22 * "0")]),
    (STRING, [(-0.0, "0"), (98101, "98101"), (True, "true"), (False, "false"), (" Rye ", "Rye")]),
    (STRING, [("a\tb\nc", "a\tb\nc"), (["Deck", 2, True], "Deck, 2, true"), (["Deck", "***"], "Deck")]),
    (STRING, [("a\x00b\x1b\x7f\x85c\ud800", "abc"), ("Zoë\u00a0😀", "Zoë\u00a0😀")]),
    (DATE, [(day, day) for day in ("2026-11-20", "2024-02-29", "1900-01-01", "2200-12-31")]),
    (DATE, [("2026-11-20T23:30:00-08:00", "2026-11-20"), ("2026-11-20 01:02", "2026-11-20")]),
    (DATE_TIME, [(f"2026-11-20{time}", "2026-11-20T10:00:00Z") for time in ("T10:00:00", "t10:00:00z", " 10:00")]),
    (DATE_TIME, [("2026-11-20T10:00:00.123456789123-08:00", "2026-11-20T10:00:00.123456789-08:00")]),
    (DATE_TIME, [("2026-11-20T10:00:00 +0530", "2026-11-20T10:00:00+05:30")]),
    (UNIX, [("1970-01-01T00:00:01Z", 1), ("1970-01-01T00:00:01.999Z", 1), ("1969-12-31T23:59:59.5Z", -1)]),
    (UNIX, [("2026-11-20T10:00:00+01:00", 1795165200), (1795165200, 1795165200), (1795165200.9, 1795165200)]),
    (UNTYPED, [(kept, kept) for kept in (3, -2.5, 2**53, 1e12, "text")]),
    (UNTYPED, [(["GRI", "CRS"], "GRI, CRS"), (True, "true")]),
    (LISTS, [(["Deck", "Patio"], ["Deck", "Patio"]), (["Range, Gas"], ["Range, Gas"]), ([1, True], ["1", "true"])]),
    (LISTS, [("Deck, Patio,,Spa", ["Deck", "Patio", "Spa"]), ("Deck", ["Deck"]), (2, ["2"])]),
    (LISTS, [({"Deck": True, "Patio": False, "Spa": None, "Sauna": True}, ["Deck", "Sauna"])]),
    (LISTS, [([{"Name": "Deck"}, {"Value": "Spa", "Key": 3}, {"LookupValue": "Den"}], ["Deck", "Spa", "Den"])]),
    (LISTS, [({"Name": "Deck"}, ["Deck"]), ([{"Name": "***"}], None), ({"Deck": False}, None), ({}, None)]),
    (LISTS, [(["Deck", "****", None, " ", "Patio"], ["Deck", "Patio"])]),
    (LISTS, [(["****"], None), ([], None), ("***,  ,", None)]),
]


@pytest.mark.parametrize(("kinds", "cases"), _READ)
def test_values_are_read(kinds: Sequence[FieldKind], cases: list[tuple[Any, Any]]) -> None:
    for kind in kinds:
        for value, expected in cases:
            found, reason = convert(kind, value)
            assert (found, type(found), reason) == (expected, type(expected), ""), (kind, value)


_UNREADABLE, _NO_TIME = "not a timestamp such as 2026-11-20T10:00:00Z", "a timestamp that does not exist"
_NO_NAME = "has an element that is an object without exactly one of Name, Value, LookupValue"
_YEARS, _MOST, _INEXACT = "outside the years 1900 to 2200", "more than 2147483647", "beyond the range of exact integers"
_LEFT_OUT: list[tuple[Sequence[FieldKind], Any, str]] = [
    (NUMBERS, 374524099053.44, f"is 374524099053.44: {_MOST}"),
    (NUMBERS, "374524099053.44", f"is '374524099053.44': {_MOST}"),
    (NUMBERS, 2147483648, f"is 2147483648: {_MOST}"),
    (NUMBERS, "2147483647.000000001", f"is '2147483647.000000001': {_MOST}"),
    (NUMBERS, math.inf, f"is inf: {_MOST}"),
    (NUMBERS, 10**4500, f"is a number of 14949 bits: {_MOST}"),
    (NUMBERS, math.nan, "is nan: not a number"),
    *((NUMBERS, value, f"is {value!r}: less than 0") for value in (-1, -0.5, "-3")),
    *((NUMBERS, value, f"is {value!r}: not a number") for value in ("1,000", "1_000", "NaN")),
    (NUMBERS, "Sample " * 9, "is 'Sample Sample Sample Sample Sample Sampl…': not a number"),
    (NUMBERS, True, "is true: not a number"),
    *((NUMBERS, value, f"is {what}: not a number") for value, what in (({}, "an object"), ([1], "a list"))),
    *((BOOLEAN, value, f"is {value!r}: not a boolean") for value in ("maybe", 2)),
    *((BOOLEAN, value, f"is {what}: not a boolean") for value, what in (([True], "a list"), ({}, "an object"))),
    (STRING, {"a": 1}, "is an object: not a text"),
    (STRING, math.nan, "is nan: not a text"),
    (STRING, 2**256, "is a number of 257 bits: not a text"),
    (STRING, [{}, "Deck"], "has an element that is an object: not a text"),
    (STRING, [["Deck"]], "has an element that is a list: not a text"),
    *((TIMES, text, f"is {text!r}: {_NO_TIME}") for text in ("2023-02-29T00:00:00Z", "2026-01-01T24:30:00Z")),
    (TIMES, "2026-01-01T10:00:00+24:00", f"is '2026-01-01T10:00:00+24:00': {_NO_TIME}"),
    *((TIMES, text, f"is {text!r}: {_YEARS}") for text in ("0001-01-01T00:00:00Z", "2201-01-01T00:00:00Z")),
    *((TIMES, text, f"is {text!r}: {_UNREADABLE}") for text in ("20 Nov 2026", "20261120", "2026-W01-1")),
    (TIMES, "\uff12026-11-20", f"is '\uff12026-11-20': {_UNREADABLE}"),
    *((TIMES, value, f"is {what}: not a date or timestamp") for value, what in ((True, "true"), ({}, "an object"))),
    (DATE, "2023-02-29", "is '2023-02-29': a date that does not exist"),
    *((DATE, day, f"is '{day}': {_YEARS}") for day in ("1899-12-31", "2201-01-01")),
    *((UNIX, at, f"is {at!r}: not seconds between 1970 and 2200") for at in (-1, 1795165200000, math.nan, math.inf)),
    *((UNTYPED, value, f"is {value!r}: {_INEXACT}") for value in (2**53 + 1, -(2**53) - 1, 2**64, math.inf, math.nan)),
    *((LISTS, value, _NO_NAME) for value in ([{"Deck": 1}], {"Deck": "Y"}, [{"Name": "a", "Value": "b"}])),
    (LISTS, [{"Name": {}}], "has an element that is an object: not a text"),
    (LISTS, [["Deck"]], "has an element that is a list: not a text"),
]


@pytest.mark.parametrize(("kinds", "value", "reason"), _LEFT_OUT, ids=lambda given: given if type(given) is str else "")
def test_values_that_cannot_be_kept_are_left_out_with_a_reason(
    kinds: Sequence[FieldKind], value: Any, reason: str
) -> None:
    kept = "Deck" if value == [{}, "Deck"] else None
    assert {convert(kind, value) for kind in kinds} == {(kept, reason)}


def test_elements_beside_one_that_cannot_be_kept_stay() -> None:
    for kind in LISTS:
        assert convert(kind, [["Deck"], "Spa"])[0] == convert(kind, [{"Deck": 1}, "Spa"])[0] == ["Spa"]


def test_what_is_searched_by_is_not_longer_than_the_engine_takes() -> None:
    short = limit_searchable(to_text)
    assert short("a" * 8000) == "a" * 8000
    with pytest.raises(UnmappableValue, match="has 8001 characters: more than 8000"):
        short("a" * 8001)


_TYPES: dict[FieldKind, Any] = {
    **dict.fromkeys([FieldKind.STRING, FieldKind.DATE, FieldKind.DATE_TIME], str),
    **dict.fromkeys(NUMBERS, (int, float)),
    **dict.fromkeys(LISTS, list),
    FieldKind.UNIX: int,
    FieldKind.BOOLEAN: bool,
    FieldKind.UNTYPED: (str, int, float),
}


@given(st.sampled_from(SINGLE), VALUES)
def test_whatever_comes_is_read_or_left_out_with_a_reason_and_can_be_written(kind: FieldKind, value: object) -> None:
    found, reason = convert(kind, value)
    assert found is None or isinstance(found, _TYPES[kind])
    assert len(orjson.dumps([found, reason])) > 0
    assert len(reason) < 140
