"""Each operation is declared once: every parameter has an effect, and every clause searches an indexed field."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from marshmallow import Schema

from mappings import LISTING, OFFICE
from service.operation import Operation
from service.parameters import (
    Boolean,
    NumberedPaging,
    Text,
    UnixSecond,
    WholeNumber,
    any_of,
    at_least,
    at_most,
    equals,
    is_true,
    since,
    since_day,
    until,
)
from service.resources import OPERATIONS
from service.resources.responses import (
    FilterRule,
    PageResponse,
    RecordResponse,
    ResourceResponse,
    filter_clauses,
    response_of,
)
from service.search.query import Clause, window_start

_operations = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)


def unused(operation: Operation) -> set[str]:
    """Return the parameters that no clause, rule, scope, paging or form of the response reads."""
    response, fields = response_of(operation), operation.schema.fields
    with_clause = {name for name, field in fields.items() if getattr(field, "clause", None) is not None}
    in_rules = {name for rule in response.rules for name in rule.parameters}
    in_path = {*re.findall(r"\{(\w+)\}", operation.path)}
    return fields.keys() - with_clause - in_rules - in_path - response.parameters


def not_indexed(operation: Operation) -> set[str]:
    """Return the search fields of clauses and rules that the resource does not index."""
    response = response_of(operation)
    indexed = {field.name for field in response.resource.indexed_fields if field.mapping.get("index", True)}
    clauses = [getattr(field, "clause", None) for field in operation.schema.fields.values()]
    used = {clause.field for clause in clauses if clause is not None}
    return (used | {name for rule in response.rules for name in rule.fields}) - indexed


@_operations
def test_every_parameter_has_an_effect(operation: Operation) -> None:
    assert unused(operation) == set()


@_operations
def test_every_clause_searches_an_indexed_field(operation: Operation) -> None:
    assert not_indexed(operation) == set()


@_operations
def test_every_rule_reads_parameters_of_its_operation(operation: Operation) -> None:
    named = {name for rule in response_of(operation).rules for name in rule.parameters}
    assert named <= operation.schema.fields.keys()


class _Forgotten(NumberedPaging):
    min_list_price = WholeNumber("Listings at or above this price.")
    include_nothing = Boolean("A flag that no field has.")


class _Unindexed(NumberedPaging):
    min_windows = WholeNumber("Listings with so many windows.", clause=at_least("windows"))
    modified = Text("By a field that is only read back.", clause=equals("modified"))


def test_a_parameter_without_a_clause_is_noticed() -> None:
    operation = Operation("/offices", _Forgotten(), PageResponse(OFFICE))
    assert unused(operation) == {"min_list_price", "include_nothing"}


def test_a_parameter_that_this_response_does_not_read_is_noticed() -> None:
    operation = Operation("/offices/{platform_office_id}", NumberedPaging(), RecordResponse(OFFICE))
    assert unused(operation) == {"page_number", "page_size"}


def test_a_clause_on_a_field_that_is_not_indexed_is_noticed() -> None:
    operation = Operation("/offices", _Unindexed(), PageResponse(OFFICE))
    assert not_indexed(operation) == {"windows", "modified"}
    rules = (FilterRule(parameters=("min_windows",), fields=("doors",), clauses=_nothing),)
    operation = Operation("/offices", _Unindexed(), PageResponse(OFFICE, rules=rules))
    assert not_indexed(operation) == {"windows", "doors", "modified"}


async def _nothing(_: object) -> list[Clause]:
    return []


def test_only_functions_named_in_rules_or_classes_of_responses_serve_the_contract() -> None:
    assert all(isinstance(operation.handler, ResourceResponse) for operation in OPERATIONS)


class _Filtered(Schema):
    office = Text("", clause=equals("offices"))
    least = WholeNumber("", clause=at_least("list_price"))
    most = WholeNumber("", clause=at_most("list_price"))
    kinds = Text("", clause=any_of("property_type_id"))
    agent_created = Boolean("", clause=is_true("agent_created"))
    updated_since = UnixSecond("", clause=since("clock", default=window_start, unless=("agent_created",)))
    sold_since = UnixSecond("", clause=since_day("sold"))
    sold_before = UnixSecond("", clause=until("sold"))


NOTHING: dict[str, Any] = dict.fromkeys(_Filtered().fields) | {"agent_created": False}


def clauses(**sent: Any) -> list[Clause]:
    """Return the clauses for some values, all other parameters being at their default."""
    call: Any = SimpleNamespace(schema=_Filtered(), parameters=NOTHING | sent)
    return list(asyncio.run(filter_clauses(call, ())))


@pytest.mark.parametrize(
    ("sent", "clause"),
    [
        ({"office": "7"}, {"term": {"offices": "7"}}),
        ({"least": 0}, {"range": {"list_price": {"gte": 0}}}),
        ({"most": 9}, {"range": {"list_price": {"lte": 9}}}),
        ({"kinds": [1, 2]}, {"terms": {"property_type_id": [1, 2]}}),
        ({"sold_since": 86_401}, {"range": {"sold": {"gte": 86_400_000}}}),
        ({"sold_before": 86_401}, {"range": {"sold": {"lte": 86_401_000}}}),
    ],
)
def test_a_value_becomes_its_clause(sent: dict[str, Any], clause: Clause) -> None:
    found = clauses(updated_since=7, **sent)
    assert len(found) == 2
    assert clause in found


def test_a_default_applies_unless_it_is_sent_or_another_parameter_takes_it_away() -> None:
    [window] = clauses()
    assert window["range"]["clock"]["gte"] == window_start() * 1000  # type: ignore[index]
    assert clauses(updated_since=7) == [{"range": {"clock": {"gte": 7000}}}]
    assert clauses(agent_created=True) == [{"term": {"agent_created": True}}]
    assert clauses(agent_created=True, updated_since=0) == [
        {"term": {"agent_created": True}},
        {"range": {"clock": {"gte": 0}}},
    ]


def test_an_operation_is_named_after_what_it_returns() -> None:
    assert (PageResponse(LISTING).operation_id, PageResponse(LISTING).summary) == ("list_listings", "List listings")
    named = {operation.path: response_of(operation).operation_id for operation in OPERATIONS}
    assert named["/sold_listings/{platform_listing_id}"] == "show_sold_listing"
    assert response_of(OPERATIONS[5]).summary == "Get an agent"
