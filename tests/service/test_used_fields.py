"""Which search fields a body uses, in every form that the service writes."""

from typing import Any

import pytest

from mappings import AGENT, LISTING
from service.scope import Scope
from service.search.query import (
    Selection,
    at_or_after,
    lacks_field,
    match_any,
    match_none,
    numbered_body,
    term,
    terms,
    used_fields,
    walk_body,
)

BOOKKEEPING = {"feed_key", "deleted"}
ONE = Scope(frozenset({"acme"}))
# Values that are named as fields are; none of them is used.
VALUES = ["status", "sort", "field", "term"]


@pytest.mark.parametrize(
    ("clause", "fields"),
    [
        (term("status", "agents"), {"status"}),
        (terms("agents", VALUES), {"agents"}),
        (at_or_after("clock", 7), {"clock"}),
        (lacks_field("deactivated"), {"deactivated"}),
        (match_any(term("agents", "1"), term("buyer_agents", "1")), {"agents", "buyer_agents"}),
        (match_none(terms("status", VALUES)), {"status"}),
        ({"bool": {"filter": [term("office", "7")], "_name": "status"}}, {"office"}),
    ],
)
def test_the_fields_of_clauses_are_used(clause: Any, fields: set[str]) -> None:
    assert {*used_fields(walk_body(Selection(LISTING, ONE, (clause,)), 1, "status"))} == fields | BOOKKEEPING


def test_fields_read_back_and_sorted_by_are_used() -> None:
    brief = numbered_body(Selection(AGENT, Scope(None)), 0, 1, timestamps_only=True)
    assert {*used_fields(brief)} == {"platform_agent_id", "id", "clock", "modified", "deleted"}
    assert {*used_fields({"sort": ["id", {"clock": "desc"}], "_source": ["numeric_id"]})} == {
        "id",
        "clock",
        "numeric_id",
    }
    assert {*used_fields({"_source": False, "size": 1})} == set()


def test_the_fields_of_aggregations_are_used_and_their_options_are_not() -> None:
    body = {"aggs": {"of": {"terms": {"field": "bucket", "size": 7}, "aggs": {"sum": {"sum": {"field": "proof_low"}}}}}}
    assert {*used_fields(body)} == {"bucket", "proof_low"}
