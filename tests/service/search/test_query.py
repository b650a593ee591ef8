"""Search bodies: one company seeks by its feed key, several are filtered and sorted by the identifier."""

from typing import Any

import pytest

from mappings import AGENT, LISTING, OFFICE
from service.scope import Scope
from service.search import query
from service.search.query import Selection, numbered_body, page_body, walk_body
from tests.internals import Clock, Internals

ONE = Selection(LISTING, Scope(frozenset({"acme"})))
TWO = Selection(LISTING, Scope(frozenset({"zeta", "acme"})))
ALL = Selection(LISTING, Scope(None))
NONE = Selection(LISTING, Scope(frozenset()))
ALIVE = {"term": {"deleted": False}}


def filters(body: dict[str, Any]) -> list[Any]:
    """Return the clauses of a body, all of which must match."""
    assert set(body["query"]) == {"bool"}
    assert set(body["query"]["bool"]) == {"filter"}
    clauses: list[Any] = body["query"]["bool"]["filter"]
    return clauses


def test_one_company_is_a_range_of_its_feed_key() -> None:
    body = walk_body(ONE, 200, None)
    assert filters(body) == [{"range": {"feed_key": {"gt": "acme:", "lt": "acme;"}}}, ALIVE]
    assert body["sort"] == ["feed_key"]
    assert "search_after" not in body


def test_the_cursor_of_one_company_narrows_the_range_and_is_sought() -> None:
    body = walk_body(ONE, 200, "L7")
    assert filters(body) == [{"range": {"feed_key": {"gt": "acme:L7", "lt": "acme;"}}}, ALIVE]
    assert body["search_after"] == ["acme:L7"]


def test_several_companies_are_a_filter_sorted_by_identifier_behind_the_cursor() -> None:
    body = walk_body(TWO, 200, "L7")
    assert filters(body) == [{"terms": {"company": ["acme", "zeta"]}}, {"range": {"id": {"gt": "L7"}}}, ALIVE]
    assert (body["sort"], body["search_after"]) == (["id"], ["L7"])
    assert filters(walk_body(TWO, 200, None)) == [{"terms": {"company": ["acme", "zeta"]}}, ALIVE]


def test_all_companies_need_no_filter_but_the_cursor() -> None:
    body = walk_body(ALL, 200, "L7")
    assert filters(body) == [{"range": {"id": {"gt": "L7"}}}, ALIVE]
    assert (body["sort"], body["search_after"]) == (["id"], ["L7"])
    assert filters(walk_body(ALL, 200, None)) == [ALIVE]


def test_a_record_is_found_by_the_id_of_its_document() -> None:
    assert query.by_id("L7") == {"term": {"_id": "L7"}}


def test_no_company_matches_nothing_rather_than_everything() -> None:
    assert filters(walk_body(NONE, 200, None)) == [{"terms": {"company": []}}, ALIVE]


def test_a_walk_asks_for_one_record_more_and_counts_nothing() -> None:
    body = walk_body(ONE, 200, None)
    assert (body["size"], body["track_total_hits"]) == (201, False)


def test_a_numbered_page_skips_the_pages_before_and_counts_all() -> None:
    body = numbered_body(TWO, 200, 100)
    assert (body["from"], body["size"], body["track_total_hits"]) == (200, 100, True)


@pytest.mark.parametrize("selection", [ONE, TWO, ALL, NONE])
def test_every_body_leaves_tombstones_out(selection: Selection) -> None:
    bodies = page_body(selection, 1), walk_body(selection, 1, None), numbered_body(selection, 0, 1)
    assert all(ALIVE in filters(body) for body in bodies)


def test_the_clauses_of_a_selection_all_restrict_the_body() -> None:
    clauses = (query.term("status", "Active"), query.at_or_after("clock", 7))
    selection = Selection(LISTING, Scope(None), clauses)
    assert filters(walk_body(selection, 1, None)) == [ALIVE, *clauses]


@pytest.mark.parametrize(
    ("selection", "fields"),
    [
        (ONE, ["id", "listing_id", "clock", "modified"]),
        (Selection(AGENT, Scope(None)), ["platform_agent_id", "id", "clock", "modified"]),
        (Selection(OFFICE, Scope(None)), ["id", "clock", "modified"]),
    ],
)
def test_a_brief_body_reads_doc_values_and_no_record(selection: Selection, fields: list[str]) -> None:
    for body in (
        walk_body(selection, 1, None, timestamps_only=True),
        numbered_body(selection, 1, 1, timestamps_only=True),
    ):
        assert (body["stored_fields"], body["docvalue_fields"]) == ("_none_", fields)
    assert "_source" not in walk_body(selection, 1, None)


def test_moments_are_compared_in_milliseconds_with_the_boundary_second_included() -> None:
    assert query.at_or_after("clock", 1_700_000_000) == {"range": {"clock": {"gte": 1_700_000_000_000}}}


def test_one_alternative_is_a_plain_clause_and_several_need_one_match() -> None:
    first, second = query.term("id", "a"), query.term("numeric_id", "a")
    assert query.match_any(first) == first
    assert query.match_any(first, second) == {"bool": {"should": [first, second]}}


def test_exclusion_and_absence() -> None:
    assert query.match_none(query.term("id", "a")) == {"bool": {"must_not": [{"term": {"id": "a"}}]}}
    assert query.lacks_field("deactivated") == {"bool": {"must_not": [{"exists": {"field": "deactivated"}}]}}


@pytest.mark.parametrize("now", [1_800_000_000.0, 1_800_000_059.9, 1_800_000_060.0, 1_800_000_061.5])
def test_the_default_window_is_seven_days_and_moves_once_a_minute(now: float, internals: Internals) -> None:
    internals(query_time=Clock(now))
    begins = query.window_start()
    assert begins % 60 == 0
    assert 0 <= int(now) - 7 * 24 * 3600 - begins < 60
