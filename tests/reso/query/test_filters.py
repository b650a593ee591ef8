"""$filter: what it means, over plain records and odd ones, and what is refused."""

import pytest

from tests.reso.query.filter_bounds import Bounds, bounds, equality_values
from tests.reso.query.filter_grammar import parse
from tests.reso.query.filter_predicates import PredicateBuilder
from tests.reso.query.filter_tokens import BadFilter
from tests.reso.server.schema import ENTITY_TYPES, Record

_ENTITY = ENTITY_TYPES["Property"]
_RECORDS: dict[str, Record] = {
    "a": {
        "City": "O'Fallon",
        "ListPrice": 100,
        "PoolPrivateYN": True,
        "StatusChangeTimestamp": "2026-01-01T00:00:00.500Z",
    },
    "b": {
        "City": "o'fallon",
        "ListPrice": 250.5,
        "PoolPrivateYN": False,
        "StatusChangeTimestamp": "2026-01-02T00:00:00Z",
    },
    "c": {"City": None, "ListPrice": None, "PoolPrivateYN": None, "StatusChangeTimestamp": "9999-12-31T23:59:59.999Z"},
    "d": {"City": "********", "ListPrice": "********", "PoolPrivateYN": "********", "StatusChangeTimestamp": "soon"},
    "e": {"City": "Zürich & (x)", "ListPrice": -1e12, "CloseDate": "2026-02-03", "StatusChangeTimestamp": ["odd"]},
}


def matching(text: str, *, compares_text: bool = False) -> str:
    """Return the keys of the records that a filter holds for."""
    holds = PredicateBuilder(_ENTITY, compares_text=compares_text).predicate(parse(text))
    return "".join(key for key, record in _RECORDS.items() if holds(record | {"ListingKey": key}))


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("City eq 'O''Fallon'", "a"),
        ("City ne 'O''Fallon'", "bcde"),
        ("City eq null", "c"),
        ("City ne null", "abde"),
        ("City gt 'Z'", "be"),
        ("City eq 'Zürich & (x)'", "e"),
        ("ListPrice gt 100", "b"),
        ("ListPrice ge 100", "ab"),
        ("ListPrice lt 1e3", "abe"),
        ("ListPrice le -1", "e"),
        ("100 lt ListPrice", "b"),
        ("ListPrice gt null", ""),
        ("ListingKey in ('a','c','nowhere')", "ac"),
        ("ListPrice in (100, null)", "ac"),
        ("PoolPrivateYN eq true", "a"),
        ("PoolPrivateYN", "a"),
        ("not PoolPrivateYN", "bcde"),
        ("CloseDate eq 2026-02-03", "e"),
        ("CloseDate gt 2026-02-02 and CloseDate lt 2026-02-04", "e"),
        ("ListingKey eq 'a' or ListingKey eq 'b' and City eq null", "a"),
        ("ListingKey eq 'a' or ListingKey eq 'b' or ListingKey eq 'c'", "abc"),
        ("ListingKey ne 'a' and ListingKey ne 'b' and ListingKey ne 'c'", "de"),
        ("(ListingKey eq 'a' or ListingKey eq 'c') and City eq null", "c"),
        ("not (ListingKey eq 'a' or ListingKey eq 'b')", "cde"),
        ("not not (ListingKey eq 'a')", "a"),
        ("StatusChangeTimestamp gt 2026-01-01T00:00:00Z", "abc"),
        ("StatusChangeTimestamp gt 2026-01-01T00:00:00.500Z", "bc"),
        ("StatusChangeTimestamp eq 2026-01-02T01:00:00.000000+01:00", "b"),
        ("StatusChangeTimestamp lt 9000-01-01T00:00:00Z", "ab"),
    ],
)
def test_a_filter_holds_for(text: str, keys: str) -> None:
    assert matching(text) == keys


def test_text_compared_misses_the_fractions_of_a_whole_second() -> None:
    whole = "StatusChangeTimestamp gt 2026-01-01T00:00:00Z"
    assert (matching(whole), "a" in matching(whole, compares_text=True)) == ("abc", False)
    assert "a" in matching("StatusChangeTimestamp gt 2026-01-01T00:00:00.000Z", compares_text=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "City",
        "City eq",
        "City eq 'open",
        "City eq 5",
        "City EQ 'a'",
        "City eq 'a' and",
        "(City eq 'a'",
        "City eq 'a')",
        "City in ()",
        "City in 'a'",
        "Nowhere eq 'a'",
        "Nowhere eq null",
        "ListPrice eq 100or ListPrice eq 5",
        "ListPrice eq 'a'",
        "ListPrice eq 100abc",
        "CloseDate eq 2026-02-03T00:00:00Z",
        "StatusChangeTimestamp gt 2026-02-03",
        "StatusChangeTimestamp gt 2026-02-31T00:00:00Z",
        "StatusChangeTimestamp gt 2026-02-03T00:00:00 01:00",
        "Appliances eq 'Range'",
        "contains(City,'a')",
        "1 eq 1",
    ],
)
def test_an_invalid_filter_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        matching(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ListingKey gt 'a' and ListingKey le 'c'", Bounds("a", "c")),
        ("ListingKey gt 'a' and ListingKey gt 'b'", Bounds("b", None)),
        ("ListingKey gt 'a' or ListingKey eq 'b'", Bounds("a", None)),
        ("ListingKey in ('b','a')", Bounds("a", "b")),
        ("ListingKey gt 'a' or City eq 'b'", Bounds()),
        ("not (ListingKey gt 'a')", Bounds()),
        ("City gt 'a'", Bounds()),
    ],
)
def test_bounds_leave_out_only_what_cannot_match(text: str, expected: Bounds) -> None:
    assert bounds(parse(text), "ListingKey") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ListingKey eq 'a'", {"a"}),
        ("ListingKey in ('a','b') and City eq 'c'", {"a", "b"}),
        ("ListingKey eq 'a' or ListingKey eq 'b'", {"a", "b"}),
        ("ListingKey eq 'a' or City eq 'b'", None),
        ("ListingKey ne 'a'", None),
    ],
)
def test_points_are_all_that_can_match(text: str, expected: set[str] | None) -> None:
    assert equality_values(parse(text), "ListingKey") == expected
