"""What each kind of field makes of a value, and with which words it leaves one out."""

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.reso.mapping.values import UnmappableValue, converter_for, limit_searchable, to_text
from mappings.fields import FieldKind
from tests.reso.world.invalid_values import VALUES

SINGLE = [kind for kind in FieldKind if kind not in {FieldKind.OBJECT, FieldKind.OBJECTS}]
NUMBERS = [FieldKind.INTEGER, FieldKind.NUMBER]
LISTS = [FieldKind.STRINGS, FieldKind.UNTYPED_LIST]


def convert(kind: FieldKind, value: object) -> tuple[object, str]:
    """Return what is kept of a value, and the reason why something is not."""
    try:
        return converter_for(kind)(value), ""
    except UnmappableValue as left:
        return left.partial, left.reason


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("nothing", [None, "", "  ", "***", " ******** ", "\x00"])
def test_nothing_and_what_is_masked_is_absent_without_a_reason(kind: FieldKind, nothing: object) -> None:
    assert convert(kind, nothing) == (None, "")


@pytest.mark.parametrize("kind", LISTS)
def test_masked_elements_are_dropped_without_a_reason(kind: FieldKind) -> None:
    assert convert(kind, ["Deck", "****", None, " ", "Patio"]) == (["Deck", "Patio"], "")
    assert convert(kind, ["****"]) == convert(kind, []) == convert(kind, "***,  ,") == (None, "")


@pytest.mark.parametrize("kept", ["**", "* * *", "***a", "a***"])
def test_a_text_with_asterisks_in_it_is_not_masked(kept: str) -> None:
    assert convert(FieldKind.STRING, kept) == (kept, "")


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((0, 0), (7, 7), (0.25, 0.25), (2147483647, 2147483647), ("0", 0), ("12", 12), ("12.50", 12.5), (" 3 ", 3)),
        *(("+4", 4), ("1e3", 1000), (".5", 0.5), ("2.", 2), ("2147483647.0", 2147483647), ("1E-999", 0.0)),
    ],
)
def test_numbers_come_as_numbers_or_as_texts(kind: FieldKind, value: object, number: float) -> None:
    found, reason = convert(kind, value)
    assert (found, type(found), reason) == (number, type(number), "")


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (374524099053.44, "is 374524099053.44: more than 2147483647"),
        ("374524099053.44", "is '374524099053.44': more than 2147483647"),
        (2147483648, "is 2147483648: more than 2147483647"),
        ("2147483647.000000001", "is '2147483647.000000001': more than 2147483647"),
        (math.inf, "is inf: more than 2147483647"),
        (math.nan, "is nan: not a number"),
        *((-1, "is -1: less than 0"), (-0.5, "is -0.5: less than 0"), ("-3", "is '-3': less than 0")),
        *((True, "is true: not a number"), ({}, "is an object: not a number"), ([1], "is a list: not a number")),
        *(
            ("1,000", "is '1,000': not a number"),
            ("1_000", "is '1_000': not a number"),
            ("NaN", "is 'NaN': not a number"),
        ),
        ("Sample " * 9, "is 'Sample Sample Sample Sample Sample Sampl…': not a number"),
    ],
)
def test_numbers_out_of_bounds_are_left_out(kind: FieldKind, value: object, reason: str) -> None:
    assert convert(kind, value) == (None, reason)


def test_numbers_that_python_would_not_write_out_are_left_out_too() -> None:
    assert convert(FieldKind.INTEGER, 10**4500) == (None, "is a number of 14949 bits: more than 2147483647")


@pytest.mark.parametrize("value", [True, "true", "TRUE", "Y", "y", "Yes", "yEs", "1", 1, 1.0, " y "])
def test_what_is_true(value: object) -> None:
    assert convert(FieldKind.BOOLEAN, value) == (True, "")


@pytest.mark.parametrize("value", [False, "false", "False", "N", "n", "No", "NO", "0", 0, 0.0, -0.0])
def test_what_is_false(value: object) -> None:
    assert convert(FieldKind.BOOLEAN, value) == (False, "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *(("maybe", "is 'maybe': not a boolean"), (2, "is 2: not a boolean")),
        *(([True], "is a list: not a boolean"), ({}, "is an object: not a boolean")),
    ],
)
def test_what_is_neither_true_nor_false_is_left_out(value: object, reason: str) -> None:
    assert convert(FieldKind.BOOLEAN, value) == (None, reason)


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        *((47.5, "47.5"), (47.0, "47"), (-122.25, "-122.25"), (1e-7, "0.0000001"), (1e22, "1" + 22 * "0"), (-0.0, "0")),
        *((98101, "98101"), (True, "true"), (False, "false"), (" Rye ", "Rye"), ("a\tb\nc", "a\tb\nc")),
        *((["Deck", 2, True], "Deck, 2, true"), (["Deck", "***"], "Deck")),
        *(("a\x00b\x1b\x7f\x85c\ud800", "abc"), ("Zoë\u00a0😀", "Zoë\u00a0😀")),
    ],
)
def test_texts(value: object, spelt: str) -> None:
    assert convert(FieldKind.STRING, value) == (spelt, "")


@pytest.mark.parametrize(
    ("value", "kept", "reason"),
    [
        ({"a": 1}, None, "is an object: not a text"),
        (math.nan, None, "is nan: not a text"),
        (2**256, None, "is a number of 257 bits: not a text"),
        ([{}, "Deck"], "Deck", "has an element that is an object: not a text"),
        ([["Deck"]], None, "has an element that is a list: not a text"),
    ],
)
def test_values_other_than_text_are_left_out(value: object, kept: object, reason: str) -> None:
    assert convert(FieldKind.STRING, value) == (kept, reason)


@pytest.mark.parametrize(
    ("value", "day"),
    [
        *(("2026-11-20", "2026-11-20"), ("2024-02-29", "2024-02-29"), ("1900-01-01", "1900-01-01")),
        *(
            ("2200-12-31", "2200-12-31"),
            ("2026-11-20T23:30:00-08:00", "2026-11-20"),
            ("2026-11-20 01:02", "2026-11-20"),
        ),
    ],
)
def test_days(value: str, day: str) -> None:
    assert convert(FieldKind.DATE, value) == (day, "")


@pytest.mark.parametrize("kind", [FieldKind.DATE, FieldKind.DATE_TIME, FieldKind.UNIX])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2023-02-29T00:00:00Z", "is '2023-02-29T00:00:00Z': a timestamp that does not exist"),
        ("2026-01-01T24:30:00Z", "is '2026-01-01T24:30:00Z': a timestamp that does not exist"),
        ("2026-01-01T10:00:00+24:00", "is '2026-01-01T10:00:00+24:00': a timestamp that does not exist"),
        ("0001-01-01T00:00:00Z", "is '0001-01-01T00:00:00Z': outside the years 1900 to 2200"),
        ("2201-01-01T00:00:00Z", "is '2201-01-01T00:00:00Z': outside the years 1900 to 2200"),
        ("20 Nov 2026", "is '20 Nov 2026': not a timestamp such as 2026-11-20T10:00:00Z"),
        ("20261120", "is '20261120': not a timestamp such as 2026-11-20T10:00:00Z"),
        ("2026-W01-1", "is '2026-W01-1': not a timestamp such as 2026-11-20T10:00:00Z"),
        ("\uff12026-11-20", "is '\uff12026-11-20': not a timestamp such as 2026-11-20T10:00:00Z"),
        (True, "is true: not a date or timestamp"),
        ({}, "is an object: not a date or timestamp"),
    ],
)
def test_invalid_dates_and_times_are_left_out(kind: FieldKind, value: object, reason: str) -> None:
    assert convert(kind, value) == (None, reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [("2023-02-29", "is '2023-02-29': a date that does not exist")]
    + [(day, f"is '{day}': outside the years 1900 to 2200") for day in ("1899-12-31", "2201-01-01")],
)
def test_impossible_and_placeholder_dates_are_left_out(value: str, reason: str) -> None:
    assert convert(FieldKind.DATE, value) == (None, reason)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
        ("2026-11-20t10:00:00z", "2026-11-20T10:00:00Z"),
        ("2026-11-20T10:00:00", "2026-11-20T10:00:00Z"),
        ("2026-11-20 10:00", "2026-11-20T10:00:00Z"),
        ("2026-11-20T10:00:00.123456789123-08:00", "2026-11-20T10:00:00.123456789-08:00"),
        ("2026-11-20T10:00:00 +0530", "2026-11-20T10:00:00+05:30"),
    ],
)
def test_moments_have_an_offset(value: str, moment: str) -> None:
    assert convert(FieldKind.DATE_TIME, value) == (moment, "")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(("1970-01-01T00:00:01Z", 1), ("1970-01-01T00:00:01.999Z", 1), ("1969-12-31T23:59:59.5Z", -1)),
        *(("2026-11-20T10:00:00+01:00", 1795165200), (1795165200, 1795165200), (1795165200.9, 1795165200)),
    ],
)
def test_unix_seconds(value: object, seconds: int) -> None:
    assert convert(FieldKind.UNIX, value) == (seconds, "")


@pytest.mark.parametrize("value", [-1, 1795165200000, math.nan, math.inf])
def test_numbers_that_cannot_be_seconds_are_left_out(value: float) -> None:
    assert convert(FieldKind.UNIX, value) == (None, f"is {value!r}: not seconds between 1970 and 2200")


@pytest.mark.parametrize("value", [3, -2.5, 2**53, 1e12, "text"])
def test_untyped_values_stay_as_they_are(value: object) -> None:
    found, reason = convert(FieldKind.UNTYPED, value)
    assert (found, type(found), reason) == (value, type(value), "")


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, math.inf, math.nan, 2**64])
def test_untyped_numbers_that_json_does_not_keep_are_left_out(value: float) -> None:
    found, reason = convert(FieldKind.UNTYPED, value)
    assert found is None
    assert reason.endswith(": beyond the range of exact integers")


def test_untyped_lists_and_truths_are_texts() -> None:
    assert convert(FieldKind.UNTYPED, ["GRI", "CRS"]) == ("GRI, CRS", "")
    assert convert(FieldKind.UNTYPED, True) == ("true", "")


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    ("value", "names"),
    [
        *((["Deck", "Patio"], ["Deck", "Patio"]), (["Range, Gas"], ["Range, Gas"]), ([1, True], ["1", "true"])),
        *(("Deck, Patio,,Spa", ["Deck", "Patio", "Spa"]), ("Deck", ["Deck"]), (2, ["2"])),
        ({"Deck": True, "Patio": False, "Spa": None, "Sauna": True}, ["Deck", "Sauna"]),
        *(({"Deck": False}, None), ({}, None)),
        ([{"Name": "Deck"}, {"Value": "Spa", "Key": 3}, {"LookupValue": "Den"}], ["Deck", "Spa", "Den"]),
        *(({"Name": "Deck"}, ["Deck"]), ([{"Name": "***"}], None)),
    ],
)
def test_lists_of_names(kind: FieldKind, value: object, names: object) -> None:
    assert convert(kind, value) == (names, "")


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    ("value", "kept", "reason"),
    [
        ([{"Name": "a", "Value": "b"}, "c"], ["c"], "is an object without exactly one of Name, Value, LookupValue"),
        ([{"Deck": 1}], None, "is an object without exactly one of Name, Value, LookupValue"),
        ({"Deck": "Y"}, None, "is an object without exactly one of Name, Value, LookupValue"),
        ([["Deck"], "Spa"], ["Spa"], "is a list: not a text"),
        ([{"Name": {}}], None, "is an object: not a text"),
    ],
)
def test_elements_without_one_name_are_left_out(kind: FieldKind, value: object, kept: object, reason: str) -> None:
    assert convert(kind, value) == (kept, f"has an element that {reason}")


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
