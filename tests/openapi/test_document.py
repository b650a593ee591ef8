"""The document says what the service has: its paths, parameters, statuses; it is valid, kept, and shown by examples."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import zstandard
from aiohttp import web
from click.testing import CliRunner
from openapi_spec_validator import OpenAPIV31SpecValidator
from pytest_aiohttp.plugin import AiohttpClient

from brokerage.command import main
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError
from service import errors
from service.app import create_app
from service.changes.capability import CAPABILITY as CHANGES
from service.exports.operations import EXPORT_OPERATIONS
from service.history.capability import CAPABILITY as HISTORY
from service.openapi.document import create_document_handler, document, encoded_document
from service.openapi.schemas import extract_titled_schemas, response_bodies
from service.operation import Operation
from service.reso.operations import RESO_OPERATIONS
from service.resources import OPERATIONS
from service.settings import ServiceSettings
from service.site.discovery import API_CATALOG_PATH, LLMS_PATH, SECURITY_PATH
from tests.openapi import regenerate
from tests.openapi.document_validators import (
    CAPABILITIES,
    DOCUMENT,
    GET_OPERATIONS,
    absolute_path,
    body_validator,
    component_validator,
    documented_response,
)

_RENEW = "`python -m tests.openapi.regenerate` renews it; read the difference as a partner would"
# Never the fate of a GET that is sent as the document says, or a defect; of OData alone.
_NOT_PROMISED = {405, 406, 500, 501}
_ALL = (*OPERATIONS, *CHANGES.operations, *HISTORY.operations, *EXPORT_OPERATIONS)
_operations = pytest.mark.parametrize("operation", _ALL, ids=lambda operation: operation.path)
_of_the_contract = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)


def test_the_kept_document_is_the_one_that_is_served() -> None:
    assert regenerate.DOCUMENT.read_bytes() == encoded_document(CAPABILITIES), _RENEW


def test_the_command_prints_it() -> None:
    printed = CliRunner().invoke(main, ["openapi"])
    assert (printed.exit_code, printed.stdout_bytes) == (0, encoded_document(CAPABILITIES))


def test_the_examples_are_those_that_the_generator_makes() -> None:
    assert regenerate.EXAMPLES.read_bytes() == regenerate.render_examples(), _RENEW


def test_the_example_of_the_map_is_what_the_generator_makes() -> None:
    assert regenerate.MAP_EXAMPLE.read_bytes() == regenerate.render_map_example(), _RENEW


def test_the_kept_page_of_settings_is_that_of_the_code() -> None:
    assert regenerate.SETTINGS_PAGE.read_text(encoding="utf-8") == regenerate.render_settings(), _RENEW


def test_every_operation_has_a_summary_and_a_description_that_says_more() -> None:
    for path, described in GET_OPERATIONS.items():
        assert described["summary"][-1:].isalpha(), path
        assert described["description"].endswith("."), path
        assert described["description"].rstrip(".") != described["summary"], path


@pytest.mark.parametrize(
    ("contact", "members"),
    [
        ("", {}),
        ("api@broker.example", {"email": "api@broker.example"}),
        ("https://broker.example/@support", {"url": "https://broker.example/@support"}),
    ],
)
def test_the_contact_is_the_one_of_the_setting(contact: str, members: dict[str, str]) -> None:
    described = document(CAPABILITIES, contact)
    assert described["info"]["contact"] == {"name": "The provider of your key"} | members
    assert list(OpenAPIV31SpecValidator(described).iter_errors()) == []


@pytest.mark.parametrize("contact", ["broker", "a@b", "http://broker.example", "a b@broker.example", "https://"])
def test_another_contact_is_refused(contact: str) -> None:
    with pytest.raises(SettingError, match="BROKERAGE_CONTACT"):
        ServiceSettings(contact=contact)


def test_it_is_made_alike_every_time() -> None:
    assert document(CAPABILITIES) == DOCUMENT


def test_it_is_valid_openapi() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


def test_every_path_that_is_served_is_described_and_no_other() -> None:
    app = create_app(ServiceSettings(), ConnectionSettings(url=("http://127.0.0.1:9",)))
    served = {route.resource.canonical for route in app.router.routes() if route.method == "GET" and route.resource}
    # The documentation is for people; OData has a document of its own, which tests/odata holds answers against.
    # `/v1` is `/` under another name.
    pages, odata = {"/docs", "/docs/{name}", "/v1"}, {f"/v1{operation.path}" for operation in RESO_OPERATIONS}
    served = {
        path for path in served if not path.startswith("/api/")
    }  # the same operations, for the compatible profile
    # Their forms are standards of their own.
    discovery = {API_CATALOG_PATH, SECURITY_PATH, LLMS_PATH}
    assert served == {absolute_path(path) for path in GET_OPERATIONS} | pages | odata | discovery


@_operations
def test_the_parameters_described_are_those_that_are_read(operation: Operation) -> None:
    described = {parameter["name"]: parameter for parameter in _parameters(operation, "query")}
    assert described.keys() == operation.schema.fields.keys()
    for name, field in operation.schema.fields.items():
        assert described[name]["required"] is field.required
        assert described[name]["description"] == field.metadata["description"]
        assert described[name]["schema"].get("default") == (None if field.required else field.load_default)


@_operations
def test_every_variable_of_a_path_is_described(operation: Operation) -> None:
    variables = {parameter["name"] for parameter in _parameters(operation, "path") if parameter["required"]}
    assert {f"{{{name}}}" for name in variables} == {part for part in operation.path.split("/") if part[:1] == "{"}


def _parameters(operation: Operation, place: str) -> list[dict[str, Any]]:
    return [parameter for parameter in GET_OPERATIONS[operation.path]["parameters"] if parameter["in"] == place]


def test_every_problem_of_the_service_is_described() -> None:
    described = {int(status) for path in GET_OPERATIONS for status in GET_OPERATIONS[path]["responses"]}
    assert {kind.status for kind in _kinds(errors.ApiError)} - described == _NOT_PROMISED


def _kinds(kind: type[errors.ApiError]) -> Iterator[type[errors.ApiError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


def test_what_each_operation_may_be_refused_with() -> None:
    statuses = {path: set(GET_OPERATIONS[path]["responses"]) for path in GET_OPERATIONS}
    always = {"200", "304", "400", "401", "414", "429", "431", "503", "504"}
    assert statuses["/listings"] == always | {"403"}
    assert statuses["/listings/{platform_listing_id}"] == always | {"403", "404"}
    assert statuses["/companies"] == always
    assert statuses["/companies/{platform_company_id}"] == always | {"404"}
    assert statuses["/changes"] == always | {"403", "410"}
    assert statuses["/digest/{resource}"] == always | {"403", "404"}
    assert statuses["/snapshot/{resource}"] == (always | {"403", "404"}) - {"304"}
    assert statuses["/livez"] == {"200", "400", "414", "431"}


@pytest.mark.parametrize(
    ("status", "header"), [(401, "WWW-Authenticate"), (429, "Retry-After"), (503, "Retry-After"), (504, "Retry-After")]
)
def test_what_a_client_needs_with_a_problem_is_described(status: int, header: str) -> None:
    for operation in OPERATIONS:
        assert header in documented_response(operation.path, status)["headers"]


def test_only_operations_require_the_key_in_header_or_query() -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert {(scheme["in"], scheme["name"]) for scheme in schemes.values()} == {
        ("header", "x-api-key"),
        ("query", "api-key"),
    }
    assert DOCUMENT["security"] == [{name: []} for name in schemes]
    assert {path for path in GET_OPERATIONS if GET_OPERATIONS[path].get("security") == []} == GET_OPERATIONS.keys() - {
        each.path for each in _ALL
    }


def test_operations_have_names_and_sentences_of_their_own() -> None:
    assert len({described["operationId"] for described in GET_OPERATIONS.values()}) == len(GET_OPERATIONS)
    assert all(described["summary"] and len(described["tags"]) == 1 for described in GET_OPERATIONS.values())
    assert {described["tags"][0] for described in GET_OPERATIONS.values()} == {tag["name"] for tag in DOCUMENT["tags"]}


def test_members_may_be_added_to_every_answer() -> None:
    assert b"additionalProperties" not in encoded_document(CAPABILITIES)


@_of_the_contract
def test_there_is_an_example_of_every_form_and_it_is_one(operation: Operation) -> None:
    content = GET_OPERATIONS[operation.path]["responses"]["200"]["content"]["application/json"]
    assert list(content["examples"]) == [form.name for form in response_bodies(operation)]
    for name, example in content["examples"].items():
        component_validator(name).validate(example["value"])
        body_validator(operation.path, 200).validate(example["value"])


@pytest.mark.parametrize("path", ["/changes", "/digest/{resource}"])
def test_the_examples_of_the_feed_are_answers(path: str) -> None:
    (example,) = GET_OPERATIONS[path]["responses"]["200"]["content"]["application/json"]["examples"].values()
    body_validator(path, 200).validate(example["value"])


def test_every_object_of_an_answer_has_a_name_that_clients_can_give_its_type() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    inner = [member for schema in schemas.values() for member in schema.get("properties", {}).values()]
    assert [member for member in inner if "properties" in member or "properties" in member.get("items", {})] == []
    assert schemas["Listing"]["properties"]["ListingImages"]["items"] == {"$ref": "#/components/schemas/ListingImage"}
    assert schemas["Listing"]["properties"]["SharedPartnerData"]["anyOf"] == [
        {"$ref": "#/components/schemas/SharedPartnerData"},
        {"type": "null"},
    ]


def test_two_objects_that_differ_cannot_have_one_name() -> None:
    pages = [{"type": "object", "title": "Room", "properties": {name: {}}, "required": []} for name in ("a", "b")]
    houses = {f"House{at}": {"type": "object", "properties": {"room": room}} for at, room in enumerate(pages)}
    with pytest.raises(ValueError, match="two different objects have the title Room"):
        extract_titled_schemas(houses)
    with pytest.raises(ValueError, match=r"\['Room'\] name both records and nested objects"):
        extract_titled_schemas({"House0": houses["House0"], "Room": {}})


def test_no_answer_is_held_to_the_words_of_today() -> None:
    assert not any("enum" in orjson.dumps(schema).decode() for schema in DOCUMENT["components"]["schemas"].values())


def test_the_forms_of_a_walk_are_distinct() -> None:
    examples = GET_OPERATIONS["/listings"]["responses"]["200"]["content"]["application/json"]["examples"]
    for name in examples:
        assert [other for other in examples if component_validator(name).is_valid(examples[other]["value"])] == [name]


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.decompress,
    "zstd": zstandard.ZstdDecompressor().decompress,
}


async def test_it_is_served_packed_and_only_once_to_each(aiohttp_client: AiohttpClient) -> None:
    app = web.Application()
    app.router.add_get("/", create_document_handler(CAPABILITIES, ""))
    client = await aiohttp_client(app, auto_decompress=False)
    tags = set()
    for coding, unpack in _UNPACK.items():
        asked = {"Accept-Encoding": coding}
        first = await client.get("/", headers=asked)
        assert unpack(await first.read()) == encoded_document(CAPABILITIES)
        assert (first.content_type, first.headers.get("Content-Encoding", "identity")) == ("application/json", coding)
        tags.add(first.headers["ETag"])
        again = await client.get("/", headers={**asked, "If-None-Match": first.headers["ETag"]})
        assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert len(tags) == len(_UNPACK)
    assert (await client.get("/", headers={"If-None-Match": '"another"'})).status == 200
