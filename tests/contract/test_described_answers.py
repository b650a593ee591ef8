"""Real answers of every operation, in every form and with every refusal, against the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.openapi.answers import Body, bodies
from service.openapi.document import encoded_document
from service.resources import OPERATIONS
from tests.contract.asking import parameters, paths, records
from tests.openapi.described import DOCUMENT, GETS, body, component, response, whole_path

if TYPE_CHECKING:
    from service.operation import Operation
    from tests.contract.world import Reply, World

_FORMS = [(operation, form) for operation in OPERATIONS for form in bodies(operation)]
_operations = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)


def _held(reply: Reply, operation: Operation) -> None:
    """Hold an answer against what the document says of its status."""
    described = response(operation.path, reply.status)
    body(operation.path, reply.status).validate(reply.body)
    assert reply.headers["Content-Type"].partition(";")[0] in described["content"]
    for name in described["headers"].keys() & reply.headers.keys():
        if DOCUMENT["components"]["headers"][name]["schema"]["type"] == "integer":
            assert int(reply.headers[name]) >= 0


@pytest.mark.parametrize(
    ("operation", "form"), _FORMS, ids=[f"{operation.path} {form.name}" for operation, form in _FORMS]
)
async def test_an_answer_is_of_the_form_that_was_asked_for(world: World, operation: Operation, form: Body) -> None:
    fields = _fields(form)
    for path in paths(world, operation):
        reply = await world.get(path, **parameters(world, operation, form))
        assert reply.status == 200
        _held(reply, operation)
        component(form.name).validate(reply.body)
        alike = [_fields(other) for other in bodies(operation) if component(other.name).is_valid(reply.body)]
        # An agent has all that its short form has; no other form may pass for this one.
        assert all(other <= fields for other in alike)
        assert records(reply.body)
        for record in records(reply.body):
            assert record.keys() == fields


def _fields(form: Body) -> set[str]:
    return set(DOCUMENT["components"]["schemas"][form.records.name]["properties"])


@_operations
async def test_paging_and_walks_bring_the_headers_that_are_described(world: World, operation: Operation) -> None:
    described = {name.lower() for name in response(operation.path, 200)["headers"]}
    for path in paths(world, operation)[:1]:
        reply = await world.get(path, **parameters(world, operation) | _first_page(operation))
        told = {name.lower() for name in reply.headers}
        assert {name for name in told if name.startswith("x-")} - {"x-content-type-options"} <= described
        assert {"link", "x-page-number", "x-total-pages", "x-total-count"} & described <= told


def _first_page(operation: Operation) -> dict[str, object]:
    return {"page_size": 1} if "page_size" in operation.schema.fields else {}


@_operations
async def test_a_refusal_is_the_problem_that_is_described(world: World, operation: Operation) -> None:
    [path, *_] = paths(world, operation)
    refused = {400: {"q": "1"}, 401: {"api-key": "another"}}
    if "platform_company_id" in operation.schema.fields:
        refused[403] = {"platform_company_id": "summit-crest"}
    for status, sent in refused.items():
        reply = await world.get(path, "child", **sent)
        assert reply.status == status
        _held(reply, operation)
        assert reply.headers.keys() >= ({"WWW-Authenticate"} if status == 401 else set())


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if "{" in each.path], ids=lambda each: each.path)
async def test_an_unknown_record_is_the_problem_that_is_described(world: World, operation: Operation) -> None:
    reply = await world.get(operation.path.partition("{")[0] + "nobody")
    assert reply.status == 404
    _held(reply, operation)


@pytest.mark.parametrize("path", [path for path in GETS if GETS[path].get("security") == []])
async def test_what_needs_no_key_answers_as_described(world: World, path: str) -> None:
    for asked in ("", "?verbose=1"):
        async with world.http.get(whole_path(path) + asked) as answered:
            assert answered.status == 200
            body(path, 200).validate(await answered.json())


async def test_the_document_is_served_as_it_is_kept(world: World) -> None:
    async with world.http.get("/v1/openapi.json") as answered:
        assert await answered.read() == encoded_document()
        assert answered.headers["ETag"]
