"""A member that is indexed can be filtered by: its literals and clauses follow from the declared search field."""

from dataclasses import replace
from typing import Any

import pytest

from mappings import AGENT, LISTING, SOLD_LISTING, Resource
from mappings.search_fields import SearchField, date_millis, decimal, flag, keyword, presence, timestamp, whole_number
from service.reso.filter.clauses import MATCH_NONE, Matcher, UnsupportedComparison, build_clause
from service.reso.filter.expression import And, ComparisonOperator, FieldComparison, FilterLiteral, LiteralType
from service.reso.filter.parser import parse_filter
from service.reso.sets.child_condition import ChildCondition
from service.reso.sets.child_sets import CHILD_SETS, ChildSet
from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.edm_types import EdmType
from service.reso.sets.entity_set import field_column
from service.reso.sets.token_set import EVERY

NULL = FilterLiteral(LiteralType.NULL, "null")
DAY = 86_400_000  # milliseconds


def found(resource: Resource, name: str, *indexed: SearchField, edm: EdmType | None = None) -> Matcher | None:
    """Return how a member is found once these search fields are declared."""
    declared = replace(resource, search_fields=indexed)
    [member] = [field for field in resource.fields if field.name == name]
    return field_column(declared, member, edm).search.matcher


_TEXT, _NUMBER, _MOMENT = LiteralType.TEXT, LiteralType.NUMBER, LiteralType.TIMESTAMP
# A member, its search field, type and text of a literal, the value that is searched for, and whether it is ordered.
_CASES: list[tuple[Resource, str, SearchField, LiteralType, str, Any, bool]] = [
    (LISTING, "City", keyword("found", "City"), _TEXT, "Kent", "Kent", False),
    (LISTING, "ListPrice", whole_number("found", "ListPrice"), _NUMBER, "500000", 500_000, True),
    (AGENT, "buyer_commission_rate", decimal("found", "buyer_commission_rate"), _NUMBER, "2.5", 2.5, True),
    (
        LISTING,
        "ListingContractDate",
        date_millis("found", "ListingContractDate"),
        LiteralType.DATE,
        "1970-01-02",
        DAY,
        True,
    ),
    (AGENT, "created_timestamp", timestamp("found", "created_timestamp"), _MOMENT, "1970-01-01T00:00:07Z", 7000, True),
    (LISTING, "PoolYN", flag("found", "PoolYN"), LiteralType.BOOLEAN, "true", True, False),
]


@pytest.mark.parametrize(("resource", "name", "indexed", "kind", "text", "value", "is_ordered"), _CASES)
def test_an_indexed_member_is_compared_with_literals_of_its_type(
    resource: Resource, name: str, indexed: SearchField, kind: LiteralType, text: str, value: Any, is_ordered: bool
) -> None:
    how, literal = found(resource, name, indexed), FilterLiteral(kind, text)
    assert how is not None
    is_text = kind is LiteralType.TEXT
    assert how.match_any([literal]) == ({"term": {"found": value}} if is_text else {"terms": {"found": [value]}})
    assert how.match_any([NULL]) == {"bool": {"must_not": [{"exists": {"field": "found"}}]}}
    if is_ordered:
        assert how.match_comparison(ComparisonOperator.GE, literal) == {"range": {"found": {"gte": value}}}
    else:
        with pytest.raises(UnsupportedComparison):
            how.match_comparison(ComparisonOperator.GE, literal)


@pytest.mark.parametrize("text", ["1e400", "-1e400"])
def test_a_number_beyond_any_record_is_a_bound_that_json_has(text: str) -> None:
    how = found(AGENT, "buyer_commission_rate", decimal("goal", "buyer_commission_rate"))
    assert how is not None
    clause: Any = how.match_comparison(ComparisonOperator.GE, FilterLiteral(LiteralType.NUMBER, text))
    assert abs(clause["range"]["goal"]["gte"]) < float("inf")
    assert how.match_any([FilterLiteral(LiteralType.NUMBER, text)]) == {"match_none": {}}


def test_what_is_not_the_member_itself_cannot_be_filtered_by() -> None:
    assert found(LISTING, "LotSizeAcres", decimal("acres", "LotSizeAcres")) is None, "whole numbers are shown"
    assert found(LISTING, "City") is None
    assert found(AGENT, "company_programs", presence("has_programs", "company_programs")) is None
    assert found(LISTING, "ListAgentUUID", keyword("agents", "ListAgentUUID", "SecondaryListAgentUUID")) is None
    assert found(AGENT, "created_timestamp", whole_number("created", "created_timestamp")) is None


@pytest.mark.parametrize(
    ("text", "is_possible"),
    [
        ("A eq 'Active'", False),
        ("A eq 'Closed'", True),
        ("A ne 'Closed'", False),
        ("not (A eq 'Closed')", False),
        ("not (A ne 'Closed')", True),
        ("not (A eq 'Active')", True),
        ("A eq 'Active' or A eq 'Pending'", False),
        ("A eq 'Active' or A eq 'Closed'", True),
        ("A eq 'Closed' and A ne 'Closed'", False),
        ("not (A eq 'Closed' or A eq 'Active')", False),
        ("not (A eq 'Closed' and A eq 'Active')", True),
    ],
)
def test_a_filter_that_no_record_of_a_resource_matches_needs_no_search(text: str, *, is_possible: bool) -> None:
    matcher = ENTITY_SETS["Property"].properties["StandardStatus"].matcher(SOLD_LISTING)
    assert matcher is not None
    clause = build_clause(parse_filter(text), lambda _: matcher)
    assert (clause != MATCH_NONE) is is_possible


YEAR_2026 = 1_767_225_600_000  # its first millisecond
SIGNS = ("eq", "ne", "gt", "ge", "lt", "le")


@pytest.mark.parametrize(
    ("indexed", "period", "start", "end"),
    [
        (timestamp("at", "created_timestamp"), "year(A) {} 2025", YEAR_2026 - 365 * DAY, YEAR_2026),
        (timestamp("at", "created_timestamp"), "date(A) {} 2025-12-31", YEAR_2026 - DAY, YEAR_2026),
        (date_millis("at", "ListingContractDate"), "year(A) {} 2025", YEAR_2026 - 365 * DAY, YEAR_2026),
    ],
)
def test_a_period_ends_before_the_first_moment_of_the_next(
    indexed: SearchField, period: str, start: int, end: int
) -> None:
    resource = LISTING if "ListingContractDate" in indexed.sources else AGENT
    matcher = found(resource, indexed.sources[0], indexed)
    assert matcher is not None
    within = {"range": {"at": {"gte": start, "lt": end}}}
    assert {sign: build_clause(parse_filter(period.format(sign)), lambda _: matcher) for sign in SIGNS} == {
        "eq": within,
        "ne": {"bool": {"must_not": [within]}},
        "gt": {"range": {"at": {"gte": end}}},
        "ge": {"range": {"at": {"gte": start}}},
        "lt": {"range": {"at": {"lt": start}}},
        "le": {"range": {"at": {"lt": end}}},
    }


@pytest.mark.parametrize(
    ("sign", "bounds"), [("gt", {"gt": 1}), ("ge", {"gt": 1}), ("lt", {"lte": 1}), ("le", {"lte": 1})]
)
def test_a_bound_with_a_fraction_is_between_two_whole_numbers(sign: str, bounds: dict[str, int]) -> None:
    matcher = found(LISTING, "ListPrice", whole_number("price", "ListPrice"))
    assert matcher is not None
    assert build_clause(parse_filter(f"A {sign} 1.5"), lambda _: matcher) == {"range": {"price": bounds}}


@pytest.mark.parametrize("child_set", CHILD_SETS.values(), ids=CHILD_SETS)
def test_every_child_has_a_key(child_set: ChildSet) -> None:
    """So `ne null` selects the children of all parents, and `eq null` those of none."""
    key = child_set.key
    [(none, _)] = ChildCondition(child_set, parse_filter(f"{key} eq null")).parts
    assert none == FieldComparison(key, ComparisonOperator.EQ, NULL)
    for text, parents in (
        (f"not ({key} ne null)", none),
        (f"{key} ne null", And(())),
        (f"not ({key} eq null)", And(())),
    ):
        assert ChildCondition(child_set, parse_filter(text)).parts == ((parents, EVERY),), text
