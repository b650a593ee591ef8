"""Real answers of every operation, in every form and with every refusal, against the OpenAPI document."""

import pytest

from service.capabilities import installed_capabilities
from service.openapi.document import encoded_document
from service.openapi.schemas import ResponseBody, response_bodies
from service.operation import Operation
from service.resources import OPERATIONS
from tests.contract.request_variants import request_parameters, request_paths
from tests.contract.world import Reply, World, response_records
from tests.openapi.document_validators import (
    DOCUMENT,
    GET_OPERATIONS,
    absolute_path,
    body_validator,
    component_validator,
    documented_response,
)

_FORMS = [(operation, form) for operation in OPERATIONS for form in response_bodies(operation)]
_operations = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)


def _held(reply: Reply, operation: Operation) -> None:
    """Hold an answer against what the document says of its status."""
    described = documented_response(operation.path, reply.status)
    body_validator(operation.path, reply.status).validate(reply.body)
    assert reply.headers["Content-Type"].partition(";")[0] in described["content"]
    for name in described["headers"].keys() & reply.headers.keys():
        if DOCUMENT["components"]["headers"][name]["schema"]["type"] == "integer":
            assert int(reply.headers[name]) >= 0


@pytest.mark.parametrize(
    ("operation", "form"), _FORMS, ids=[f"{operation.path} {form.name}" for operation, form in _FORMS]
)
async def test_a_response_has_the_requested_form(world: World, operation: Operation, form: ResponseBody) -> None:
    fields = _fields(form)
    for path in request_paths(world, operation):
        reply = await world.get(path, **request_parameters(world, operation, form))
        assert reply.status == 200
        _held(reply, operation)
        component_validator(form.name).validate(reply.body)
        alike = [
            _fields(other)
            for other in response_bodies(operation)
            if component_validator(other.name).is_valid(reply.body)
        ]
        # An agent has all that its short form has; no other form may pass for this one.
        assert all(other <= fields for other in alike)
        assert response_records(reply.body)
        for record in response_records(reply.body):
            assert record.keys() == fields


def _fields(form: ResponseBody) -> set[str]:
    return set(DOCUMENT["components"]["schemas"][form.records.name]["properties"])


@_operations
async def test_paging_and_walks_bring_the_headers_that_are_described(world: World, operation: Operation) -> None:
    described = {name.lower() for name in documented_response(operation.path, 200)["headers"]}
    for path in request_paths(world, operation)[:1]:
        reply = await world.get(path, **request_parameters(world, operation) | _first_page(operation))
        reported = {name.lower() for name in reply.headers}
        assert {name for name in reported if name.startswith("x-")} - {"x-content-type-options"} <= described
        assert {"link", "x-page-number", "x-total-pages", "x-total-count"} & described <= reported


def _first_page(operation: Operation) -> dict[str, object]:
    return {"page_size": 1} if "page_size" in operation.schema.fields else {}


@_operations
async def test_a_refusal_is_the_problem_that_is_described(world: World, operation: Operation) -> None:
    [path, *_] = request_paths(world, operation)
    refused = {400: {"q": "1"}, 401: {"api-key": "another"}}
    if "platform_company_id" in operation.schema.fields:
        refused[403] = {"platform_company_id": "summit-crest"}
    for status, sent in refused.items():
        reply = await world.get(path, "child", **sent)
        assert reply.status == status
        _held(reply, operation)
        assert reply.headers.keys() >= ({"WWW-Authenticate"} if status == 401 else set())


@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if "{" in operation.path], ids=lambda operation: operation.path
)
async def test_an_unknown_record_is_the_problem_that_is_described(world: World, operation: Operation) -> None:
    reply = await world.get(operation.path.partition("{")[0] + "unknown")
    assert reply.status == 404
    _held(reply, operation)


@pytest.mark.parametrize("path", [path for path in GET_OPERATIONS if GET_OPERATIONS[path].get("security") == []])
async def test_what_needs_no_key_answers_as_described(world: World, path: str) -> None:
    for asked in ("", "?verbose=1"):
        async with world.http.get(absolute_path(path) + asked) as answered:
            assert answered.status == 200
            body_validator(path, 200).validate(await answered.json())


async def test_the_document_is_served_as_it_is_kept(world: World) -> None:
    async with world.http.get("/v1/openapi.json") as answered:
        assert await answered.read() == encoded_document(installed_capabilities())
        assert answered.headers["ETag"]
