"""The OpenAPI document, assembled by apispec."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import orjson
from apispec import APISpec

from service.exports.operations import EXPORT_OPERATIONS
from service.feed.operations import FEED_OPERATIONS
from service.http.headers import API_KEY_HEADER, API_KEY_PARAMETER
from service.http.negotiation import GEOJSON, JSON
from service.openapi import export_schemas, feed_schemas, problem_responses
from service.openapi.descriptions import operation_names
from service.openapi.feature_bodies import POINT_SCHEMA, POINT_SCHEMA_NAME, FeatureBody, feature_bodies
from service.openapi.header_components import (
    CACHE_HEADERS,
    COMMON_HEADERS,
    CURSOR_PAGE_HEADERS,
    DEPRECATION_HEADERS,
    HEADER_COMPONENTS,
    NUMBERED_PAGE_HEADERS,
    RATE_LIMIT_HEADERS,
    header_references,
)
from service.openapi.nested_schemas import SCHEMA_REFERENCE, extract_titled_schemas
from service.openapi.parameter_schemas import parameter_plugin, path_parameters
from service.openapi.response_bodies import ResponseBody, response_bodies
from service.openapi.service_paths import PROBE_STATE_SCHEMA, SERVICE_PATHS, SERVICE_TAG
from service.operation import Operation
from service.resources import OPERATIONS
from service.resources.response import UPDATED_SINCE, Envelope, response_of

_ABOUT = """A read-only API for real-estate brokerage data: listings, sold listings, agents, offices, teams, companies.

Members may be added to responses at any time: ignore those that you do not know. Every member of a form is present,
`null` where there is no value and `[]` for an empty array. Only members whose description names a flag are absent
without it. HEAD and OPTIONS work wherever GET does.

Guides, a field dictionary and the problem codes are under [/docs](/docs)."""

FEED_TAG = "Feed"
_NOT_MODIFIED = "Nothing has changed since the ETag that was sent."
_SECURITY = {
    "apiKeyHeader": {
        "type": "apiKey",
        "in": "header",
        "name": API_KEY_HEADER,
        "description": "The preferred way to send a key.",
    },
    "apiKeyQuery": {
        "type": "apiKey",
        "in": "query",
        "name": API_KEY_PARAMETER,
        "description": "Not recommended: URLs end up in logs.",
    },
}


@cache
def encoded_document(contact: str = "") -> bytes:
    """Return the encoded document, as served and, without a contact, as stored in `docs/openapi.json`."""
    return orjson.dumps(document(contact), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def document(contact: str = "") -> dict[str, Any]:
    """Return the document: an OpenAPI 3.1 object. `contact` is empty, a mail address or an https URL."""
    spec = APISpec(
        title="Brokerage data API",
        version=version("brokerage-server"),
        openapi_version="3.1.0",
        plugins=[parameter_plugin()],
        info={
            "description": _ABOUT,
            "contact": _contact(contact),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        servers=[{"url": "/v1"}],
        security=[{scheme: []} for scheme in _SECURITY],
        tags=[{"name": tag} for tag in dict.fromkeys(map(_tag, OPERATIONS))]
        + [{"name": FEED_TAG}, {"name": SERVICE_TAG}],
    )
    _add_components(spec)
    for operation in OPERATIONS:
        spec.path(operation.path, operations={"get": _contract_operation(operation)})
    for operation in FEED_OPERATIONS:
        spec.path(operation.path, operations={"get": _feed_operation(operation)})
    for operation in EXPORT_OPERATIONS:
        spec.path(operation.path, operations={"get": _export_operation(operation)})
    for path, description in SERVICE_PATHS.items():
        spec.path(path, operations={"get": description})
    content = spec.to_dict()
    return {"openapi": content.pop("openapi"), **content}


def _contact(contact: str) -> dict[str, str]:
    member = {"email" if "@" in contact and "://" not in contact else "url": contact} if contact else {}
    return {"name": "The provider of your key"} | member


def _add_components(spec: APISpec) -> None:
    for scheme, component in _SECURITY.items():
        spec.components.security_scheme(scheme, component)
    for name, component in HEADER_COMPONENTS.items():
        spec.components.header(name, component)
    for name, component in problem_responses.problem_responses().items():
        spec.components.response(name, component)
    for name, component in _schemas().items():
        spec.components.schema(name, component)


def _schemas() -> dict[str, dict[str, Any]]:
    forms = [body for operation in OPERATIONS for body in response_bodies(operation)]
    records = {form.records.name: form.records.schema for form in forms}
    pages = {form.name: form.schema for form in forms if form.is_collection}
    features = {
        name: schema
        for operation in OPERATIONS
        for form in feature_bodies(operation)
        for name, schema in form.schemas.items()
    }
    named = extract_titled_schemas(
        {"Problem": problem_responses.PROBLEM_SCHEMA, "ProbeState": PROBE_STATE_SCHEMA} | records
    )
    return (
        named
        | pages
        | {POINT_SCHEMA_NAME: POINT_SCHEMA}
        | features
        | feed_schemas.FEED_SCHEMAS
        | export_schemas.EXPORT_SCHEMAS
    )


def _tag(operation: Operation) -> str:
    return response_of(operation).resource.alias.replace("_", " ").capitalize()


def _contract_operation(operation: Operation) -> dict[str, Any]:
    unchanged = {"description": _NOT_MODIFIED, "headers": _headers(operation)}
    return _request_part(operation, _tag(operation)) | {
        "responses": {"200": _success_response(operation), "304": unchanged, **_problem_responses(operation)}
    }


def _feed_operation(operation: Operation) -> dict[str, Any]:
    response = feed_schemas.feed_response(operation.path)
    unchanged = {"description": _NOT_MODIFIED, "headers": response["headers"]}
    is_tagged = feed_schemas.has_etag(operation.path)
    return _request_part(operation, FEED_TAG) | {
        "responses": {"200": response, **({"304": unchanged} if is_tagged else {}), **_problem_responses(operation)}
    }


def _export_operation(operation: Operation) -> dict[str, Any]:
    successful = export_schemas.export_responses(operation)
    unchanged = {"description": _NOT_MODIFIED, "headers": successful["200"]["headers"]}
    return _request_part(operation, FEED_TAG) | {
        "responses": {**successful, "304": unchanged, **_problem_responses(operation)}
    }


def _request_part(operation: Operation, tag: str) -> dict[str, Any]:
    return {
        "tags": [tag],
        **operation_names(operation),
        "parameters": [*path_parameters(operation.path), {"in": "query", "schema": operation.schema}],
    }


def _problem_responses(operation: Operation) -> dict[str, Any]:
    return {
        str(status): problem_responses.response_reference(status)
        for status in problem_responses.problem_statuses(operation)
    }


def _success_response(operation: Operation) -> dict[str, Any]:
    features = feature_bodies(operation)
    return {
        "description": "The records." if response_bodies(operation)[0].is_collection else "The record.",
        "headers": _headers(operation),
        "content": {JSON: _content(response_bodies(operation))} | ({GEOJSON: _content(features)} if features else {}),
    }


def _content(forms: Sequence[ResponseBody | FeatureBody]) -> dict[str, Any]:
    references = [{"$ref": SCHEMA_REFERENCE.format(form.name)} for form in forms]
    return {
        "schema": references[0] if len(references) == 1 else {"anyOf": references},
        "examples": {form.name: {"value": form.example} for form in forms},
    }


def _headers(operation: Operation) -> dict[str, dict[str, str]]:
    envelope = response_bodies(operation)[0].envelope
    paging: tuple[str, ...] = ()
    if envelope is Envelope.WALK_PAGE:
        paging = CURSOR_PAGE_HEADERS
    elif envelope is not Envelope.NONE:
        is_walk = UPDATED_SINCE in operation.schema.fields
        paging = NUMBERED_PAGE_HEADERS + (CURSOR_PAGE_HEADERS[1:] if is_walk else ())
    return header_references(*COMMON_HEADERS, *DEPRECATION_HEADERS, *RATE_LIMIT_HEADERS, *CACHE_HEADERS, *paging)
