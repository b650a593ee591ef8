"""Field permissions: every operation, flag and spelling, asked with keys of no group, of one, of some and of all.

Each guarded field holds a value of its own that nothing else holds, so that it is found wherever it comes out.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import combinations
from typing import Any

import orjson
import pytest

from mappings import AGENT, FIELD_GROUPS, LISTING, OFFICE, RESOURCES, Resource
from mappings.fields import Field, FieldKind, View, underscore
from service.keys.store import KeyGrant
from service.operation import Operation
from service.parameters.types import Boolean
from service.resources import OPERATIONS
from tests.contract.conftest import open_world
from tests.contract.world import World, response_records
from tests.mappings.test_fields import GOALS, table
from tests.records import COMPANY_KEY, UPDATED_AT, envelope, record, write

# Those of no group and of one come first: they are asked with in every run.
GRANTS = [None, *(some for count in range(5) for some in combinations(sorted(FIELD_GROUPS), count))]
# What an index needs to answer all that it has.
WIDE = {"platform_company_id": COMPANY_KEY, "updated_since": "1", "sold_since": "1", "deactivated_since": "1"}
_NUMBERS = {FieldKind.INTEGER: 86_753_091, FieldKind.NUMBER: 86_753.25}


def canary(field: Field) -> Any:
    """Return the value of a guarded field."""
    match field.kind:
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _NUMBERS[field.kind] + len(field.name)
        case FieldKind.OBJECT:
            return {member.name: f"canary {field.name}" for member in field.members}
        case kind:
            return [f"canary {field.name}"] if kind.is_list else f"canary {field.name}"


def trace(field: Field) -> bytes:
    """Return what betrays a guarded field's value in a body."""
    return orjson.dumps(canary(field)) if field.kind in _NUMBERS else f"canary {field.name}".encode()


def guarded(resource: Resource, view: View) -> list[Field]:
    """Return the guarded fields of a variant."""
    return [field for field in resource.view(view) if field.group]


def canaries(resource: Resource) -> dict[str, Any]:
    """Return the values of a resource's guarded fields."""
    return {field.name: canary(field) for field in resource.fields if field.group}


def lines(resource: Resource) -> Iterator[dict[str, Any]]:
    """Yield envelopes of a record, and of others that are found by filters alone."""
    clock = {"shared_partner_data_updated_at": UPDATED_AT} if resource is LISTING else {}
    yield envelope(resource, canaries(resource), **clock)
    if resource is OFFICE:
        yield envelope(resource, {"platform_office_id": "office-2"}, deactivated_at=UPDATED_AT)
    if resource is AGENT:
        other = {"agent_uuid": "0b0e6d3c-5f0d-4f35-9d3c-222222222222", "platform_agent_id": "deactivated"}
        yield envelope(resource, canaries(resource) | other, deactivated_at=UPDATED_AT)
        programs = {"agent_uuid": "0b0e6d3c-5f0d-4f35-9d3c-333333333333", "platform_agent_id": "programs"}
        yield envelope(resource, canaries(resource) | programs | {"company_programs": ["one"]})
    if resource is LISTING:
        soon = {"PlatformListingId": "listing-2", "Status": "ComingSoon", "AgentCreatedListing": False}
        yield envelope(resource, canaries(resource) | soon)


@pytest.fixture(scope="module")
async def guarded_world(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over records that hold canaries, and a key for each combination of groups, by its name."""
    source = write(tmp_path_factory.mktemp("guarded"), {resource: lines(resource) for resource in RESOURCES})
    grants = {str(some): KeyGrant("test", all_companies=True, rate=None, fields=some) for some in GRANTS}
    async with open_world(engine_url, source, grants) as opened:
        yield opened


async def body_of(world: World, path: str, granted: tuple[str, ...] | None, query: dict[str, str]) -> bytes:
    """Return the body of what must be answered with 200, without a canary in its headers."""
    async with world.http.get(f"/v1{path}", params=query, headers={"x-api-key": world.keys[str(granted)]}) as response:
        body = await response.read()
        assert response.status == 200, body
        assert not [text for text in response.headers.values() if "canary" in text]
        return body


def resource_of(operation: Operation) -> Resource:
    """Return what an operation answers; an operation on anything else belongs into this test first."""
    return {resource.alias: resource for resource in RESOURCES}[operation.path.split("/")[1]]


def view_of(operation: Operation) -> View:
    """Return the view that an operation answers."""
    return View.SHOW if "{" in operation.path else View.INDEX


def path_of(operation: Operation) -> str:
    """Return the path of an operation with the identifier of a record."""
    resource = resource_of(operation)
    return re.sub(r"\{\w+\}", record(resource)[resource.identifier], operation.path)


def queries(operation: Operation) -> Iterator[dict[str, str]]:
    """Yield queries: with no flag, with each alone, with all that ask for fields, and those with underscored keys."""
    fields = operation.schema.fields
    wide = {name: value for name, value in WIDE.items() if name in fields}
    truths = [name for name, field in fields.items() if isinstance(field, Boolean)]
    includes = [name for name in truths if name.startswith("include_")]
    for sent in ([], *([name] for name in truths), includes, [*includes, "underscore_response"]):
        if fields.keys() >= {*sent}:
            yield wide | dict.fromkeys(sent, "true")


def answered(body: bytes) -> list[dict[str, Any]]:
    """Return the records of an answer."""
    return response_records(orjson.loads(body))


def emptied(full: dict[str, Any], withheld: list[Field]) -> dict[str, Any]:
    """Return a record without the values of some fields, under either spelling."""
    empty = {name: field.empty_value for field in withheld for name in (field.name, underscore(field.name))}
    return {name: empty.get(name, value) for name, value in full.items()}


def expected_keys(operation: Operation, query: dict[str, str]) -> set[str]:
    """Return the keys of the contract's table, or of `timestamps_only`."""
    resource = resource_of(operation)
    if "timestamps_only" in query:
        return {*resource.timestamps, "last_updated", "modification_timestamp"}
    view = view_of(operation)
    unsent = {field.name for field in resource.view(view) if field.is_absent(view, query)}
    names = {*table(resource, view), *GOALS} if view is View.SHOW and resource is AGENT else {*table(resource, view)}
    names -= unsent
    return {underscore(name) for name in names} if "underscore_response" in query else names


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
async def test_a_key_sees_the_groups_it_was_granted_and_of_the_others_no_trace(
    guarded_world: World, operation: Operation, amount: Callable[[int, int], int]
) -> None:
    fields = guarded(resource_of(operation), view_of(operation))
    grants = GRANTS[1 : amount(2 + len(FIELD_GROUPS), len(GRANTS))]
    for query in queries(operation):
        full = answered(await body_of(guarded_world, path_of(operation), None, query))
        assert full, query
        for granted in grants:
            body = await body_of(guarded_world, path_of(operation), granted, query)
            withheld = [field for field in fields if field.group not in (granted or ())]
            assert [field.name for field in withheld if trace(field) in body] == []
            assert answered(body) == [emptied(record, withheld) for record in full]
            assert all(set(record) == expected_keys(operation, query) for record in answered(body))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
async def test_all_of_it_comes_out_for_a_key_that_may_see_it(guarded_world: World, operation: Operation) -> None:
    """Else there would be nothing to withhold, and the test above would pass for that reason."""
    fields = guarded(resource_of(operation), view_of(operation))
    *_, everything = (query for query in queries(operation) if "underscore_response" not in query)
    for granted in (None, tuple(sorted(FIELD_GROUPS))):
        body = await body_of(guarded_world, path_of(operation), granted, everything)
        assert [field.name for field in fields if trace(field) not in body] == []
    for group in FIELD_GROUPS:
        body = await body_of(guarded_world, path_of(operation), (group,), everything)
        assert {field.group for field in fields if trace(field) in body} <= {group}


async def test_the_clock_of_partner_data_finds_what_only_it_finds(guarded_world: World) -> None:
    """The parameter that is refused has an effect at all."""
    query = {"platform_company_id": COMPANY_KEY, "updated_since": "4102444800"}
    assert answered(await body_of(guarded_world, "/listings", None, query)) == []
    for granted in (None, ("partner_data",)):
        assert answered(
            await body_of(guarded_world, "/listings", granted, query | {"shared_partner_data_updated_since": "1"})
        )
