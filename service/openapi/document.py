"""The OpenAPI document: its paths, built from the declarations, and the operation that serves it."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from mappings.fields import View
from mappings.listing import PROPERTY_TYPES
from service.capability import Capability, text_with
from service.http.requests import GEOJSON, JSON, ContentCoding, negotiate_coding
from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER, PrecompressedBody, precompress
from service.openapi.schemas import (
    CACHE_HEADERS,
    CHARACTERS,
    COMMON_HEADERS,
    CURSOR_PAGE_HEADERS,
    HEADER_COMPONENTS,
    IDENTIFIER_SCHEMA,
    NOT_MODIFIED,
    NUMBERED_PAGE_HEADERS,
    POINT_SCHEMA,
    POINT_SCHEMA_NAME,
    PROBLEM_SCHEMA,
    SCHEMA_REFERENCE,
    FeatureBody,
    ResponseBody,
    content_of,
    extract_titled_schemas,
    feature_bodies,
    header_references,
    operation_headers,
    problem_responses,
    problem_statuses,
    response_bodies,
    response_reference,
)
from service.operation import Operation
from service.parameters import (
    Boolean,
    Choice,
    Cursor,
    Parameter,
    PropertyTypes,
    QualifiedText,
    Text,
    UnixSecond,
    Uuid,
    WholeNumber,
)
from service.resources import OPERATIONS
from service.resources.responses import BRIEF, UPDATED_SINCE, Envelope, RecordFormat, ResourceResponse, response_of

_PAGE_NUMBER = "page_number"


def operation_names(operation: Operation, formats: Sequence[RecordFormat] = ()) -> dict[str, str]:
    handler = operation.handler
    if isinstance(handler, ResourceResponse):
        named = {"operationId": handler.operation_id, "summary": handler.summary}
        return named | {"description": " ".join(_sentences(operation, formats))}
    summary, _, rest = (inspect.getdoc(handler) or "").partition("\n\n")
    named = {"operationId": handler.__name__, "summary": summary.rstrip(".")}
    return named | {"description": " ".join(rest.split())}


def _sentences(operation: Operation, formats: Sequence[RecordFormat]) -> Iterator[str]:
    response, parameters = response_of(operation), operation.schema.fields
    yield from _show_sentences(response) if response.view is View.SHOW else _index_sentences(operation, response)
    if UPDATED_SINCE in parameters:
        yield "`X-Next-Updated-Since` of the first page is the `updated_since` of the next synchronization."
    if BRIEF in parameters:
        yield f"`{BRIEF}=true` returns identifiers and times alone."
    if any(form.applies_to(response.resource) for form in formats):
        yield f"`Accept: {GEOJSON}` returns GeoJSON."


def _show_sentences(response: ResourceResponse) -> Iterator[str]:
    yield f"The {response.resource.title} with the identifier in the path."
    yield "404 if it does not exist or the key cannot read it."


def _index_sentences(operation: Operation, response: ResourceResponse) -> Iterator[str]:
    records, identifier = response.resource.alias.replace("_", " "), response.resource.identifier
    if Envelope.WALK_PAGE in response.envelopes(operation.schema):
        yield f"A page of {records}, ordered by `{identifier}`."
        yield "Follow `Link`, or send the last identifier as `last_platform_listing_id`, until `FinalPage` is true."
    elif _PAGE_NUMBER in operation.schema.fields:
        yield f"A page of {records}, ordered by `{identifier}`."
        yield "Pages are numbered from 1; `X-Total-Pages` says how many there are."
    else:
        yield f"All {records} that the key can read, ordered by `{identifier}`."


Schema = dict[str, Any]

_UUID: Schema = {"type": "string", "format": "uuid", "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"}
_ONE_TYPE = f"({'|'.join(map(str, PROPERTY_TYPES))})"


def _whole_number(field: Any) -> Schema:
    return {"type": "integer", "minimum": field.minimum, "maximum": field.maximum}


_IDENTIFIER: Schema = {"description": "The identifier.", "schema": IDENTIFIER_SCHEMA}
_IN_PATH: dict[str, Schema] = {
    "guid": _IDENTIFIER
    | {"description": "An agent_uuid or platform_agent_id; with a company, also a source_agent_id."},
    "platform_company_id": _IDENTIFIER | {"description": "The company: its key or its numeric id."},
}

# By exact parameter type: a type that neither this nor a capability has fails when the document is built.
_SCHEMAS: dict[type[Parameter], Callable[[Any], Schema]] = {
    Text: lambda _: dict(IDENTIFIER_SCHEMA),
    Cursor: lambda _: dict(IDENTIFIER_SCHEMA) | {"pattern": r"^[^\u0000-\u001f\u007f]+$"},
    QualifiedText: lambda _: {"type": "string", "pattern": f"^([A-Za-z0-9_-]{{1,64}}:)?{CHARACTERS}{{1,128}}$"},
    Uuid: lambda _: dict(_UUID),
    Boolean: lambda _: {"type": "boolean"},
    WholeNumber: _whole_number,
    UnixSecond: _whole_number,
    Choice: lambda field: {"type": "string", "enum": list(field.choices)},
    # A string as in the contract: for an array some generated clients send one parameter per element, whatever
    # `explode` says.
    PropertyTypes: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_TYPE}(,{_ONE_TYPE}){{0,{len(PROPERTY_TYPES) - 1}}}$",
    },
}


def path_parameters(path: str, described: Mapping[str, Schema]) -> list[Schema]:
    """Return the parameters of a path template: those that are described, or an identifier."""
    return [
        {"in": "path", "name": name, "required": True, **described.get(name, _IDENTIFIER)}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


class ParameterPlugin(MarshmallowPlugin):
    """Replaces apispec's own schemas of our fields, which would allow null."""

    def __init__(self, schemas: Mapping[type[Parameter], Callable[[Any], Schema]]) -> None:
        """Describe the types of the contract, and those of capabilities by `schemas`."""
        super().__init__()
        self._schemas = {**_SCHEMAS, **schemas}

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        assert self.converter is not None  # noqa: S101 - made by the line above
        schemas = self._schemas

        def parameter_schema(_: object, field: Parameter, ret: Schema) -> Schema:
            ret.clear()
            default = {} if field.required or field.load_default is None else {"default": field.load_default}
            return {"description": field.metadata["description"], **schemas[type(field)](field), **default}

        self.converter.add_attribute_function(parameter_schema)  # type: ignore[no-untyped-call]


SERVICE_TAG = "Service"
# Errors that are detected before routing.
_EARLY_STATUSES = (400, 414, 431)

_PLAIN_TEXT = {"type": "string"}


def _text(description: str, example: str) -> Schema:
    return _PLAIN_TEXT | {"description": description, "examples": [example]}


# Not below `/v1`.
_AT_SERVER_ROOT = {"servers": [{"url": "/"}]}
_CHECK = {
    "type": "object",
    "title": "Check",
    "properties": {
        "subject": _text("What is checked.", "elasticsearch"),
        "state": _text("One of: ok, unknown, absent, warning, wrong.", "ok"),
        "problem": _text("What is wrong; absent if nothing is.", "No node answers."),
    },
    "required": ["subject", "state"],
}
PROBE_STATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        # No `enum`: generated clients reject values that a later version adds.
        "status": _text("One of: ok, ready, not ready, starting, started.", "ready"),
        "reason": _text("Why it is not.", "Elasticsearch cannot be reached."),
        "age_seconds": {
            "type": ["number", "null"],
            "description": "How long ago the checks were made, in seconds.",
            "examples": [1.4],
        },
        "checks": {"type": "array", "items": _CHECK, "description": "The results of all checks."},
    },
    "required": ["status"],
}
_VERBOSE = {
    "in": "query",
    "name": "verbose",
    "description": "1, true or an empty value: include the result of every check. Other values are ignored.",
    "schema": _PLAIN_TEXT,
}


def _public_operation(
    operation_id: str, summary: str, description: str, responses: dict[str, Any], *parameters: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": [SERVICE_TAG],
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "security": [],
        "parameters": list(parameters),
        "responses": responses | {str(status): response_reference(status) for status in _EARLY_STATUSES},
    }


def _probe(operation_id: str, summary: str, description: str, *statuses: int, verbose: bool = False) -> dict[str, Any]:
    responses = {
        str(status): {
            "description": "Yes." if status == 200 else "No, with the reason.",
            "headers": header_references(*COMMON_HEADERS),
            "content": {"application/json": {"schema": {"$ref": SCHEMA_REFERENCE.format("ProbeState")}}},
        }
        for status in statuses
    }
    described = _public_operation(operation_id, summary, description, responses, *([_VERBOSE] if verbose else []))
    return described | _AT_SERVER_ROOT


_INDEX_SCHEMA = {
    "type": "object",
    "properties": {
        "documentation": _text("The path of the documentation.", "/docs"),
        "openapi": _text("The path of this document.", "/v1/openapi.json"),
        "resources": {
            "type": "array",
            "items": _PLAIN_TEXT,
            "description": "The paths of the collections.",
            "examples": [["/v1/agents", "/v1/listings"]],
        },
    },
    "required": ["documentation", "openapi", "resources"],
}
_INDEX = {
    "200": {
        "description": "The paths of the documentation, of this document and of the collections.",
        "headers": header_references(*COMMON_HEADERS),
        "content": {"application/json": {"schema": _INDEX_SCHEMA}},
    },
    "303": {"description": "The documentation, for browsers.", "headers": header_references(*COMMON_HEADERS)},
}
_DOCUMENT = {
    "200": {
        "description": "An OpenAPI 3.1 document.",
        "headers": header_references(*COMMON_HEADERS, *CACHE_HEADERS),
        "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}},
    },
    "304": {
        "description": "The document is the one whose ETag was sent.",
        "headers": header_references(*COMMON_HEADERS, *CACHE_HEADERS),
    },
}

_INDEX_DESCRIPTION = "Needs no key. A browser, which accepts HTML, is led to the documentation instead."
_DOCUMENT_DESCRIPTION = "The OpenAPI description of this API. Needs no key."
_LIVE_DESCRIPTION = "For liveness checks: no other system is asked."
_READY_DESCRIPTION = "For load balancers: 503 while data or keys cannot be read, and before a shutdown."
_STARTED_DESCRIPTION = "For startup checks: stays 200 once the process was ready, whatever becomes of Elasticsearch."

SERVICE_PATHS: dict[str, dict[str, Any]] = {
    "/": _public_operation("index", "List the resources", _INDEX_DESCRIPTION, _INDEX) | _AT_SERVER_ROOT,
    "/openapi.json": _public_operation("describe", "Get this document", _DOCUMENT_DESCRIPTION, _DOCUMENT),
    "/livez": _probe("live", "Check whether the process responds", _LIVE_DESCRIPTION, 200),
    "/readyz": _probe(
        "ready", "Check whether the process is ready for requests", _READY_DESCRIPTION, 200, 503, verbose=True
    ),
    "/startupz": _probe("started", "Check whether the process has ever been ready", _STARTED_DESCRIPTION, 200, 503),
}


_ABOUT = """A read-only API for real-estate brokerage data: listings, sold listings, agents, offices, teams, companies.

Fields may be added to responses at any time: ignore those that you do not know. Every field of a form is present:
`null` without a value, `[]` for an empty array. A field whose description names a flag is present only if you send the
flag. HEAD and OPTIONS work wherever GET does.<!-- with site -->

Guides, a field dictionary and the problem codes are under [/docs](/docs).<!-- end -->"""

FEED_TAG = "Feed"
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
def encoded_document(capabilities: tuple[Capability, ...], contact: str = "") -> bytes:
    """Return the encoded document, as served and, without a contact, as stored in `docs/openapi.json`."""
    return orjson.dumps(document(capabilities, contact), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def document(capabilities: Sequence[Capability], contact: str = "") -> dict[str, Any]:
    """Return the document: an OpenAPI 3.1 object. `contact` is empty, a mail address or an https URL."""
    formats = [form for capability in capabilities for form in capability.formats]
    parts = [(capability, import_module(capability.schemas)) for capability in capabilities if capability.schemas]
    spec = APISpec(
        title="Brokerage data API",
        version=version("brokerage-server"),
        openapi_version="3.1.0",
        plugins=[ParameterPlugin({kind: schema for _, part in parts for kind, schema in part.PARAMETERS.items()})],
        info={
            "description": _ABOUT,
            "contact": _contact(contact),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        servers=[{"url": "/v1"}],
        security=[{scheme: []} for scheme in _SECURITY],
        tags=[{"name": tag} for tag in dict.fromkeys(map(_tag, OPERATIONS))]
        + [{"name": tag} for tag in ((FEED_TAG, SERVICE_TAG) if parts else (SERVICE_TAG,))],
    )
    _add_components(spec, formats, [part.SCHEMAS for _, part in parts])
    for operation in OPERATIONS:
        spec.path(operation.path, operations={"get": _contract_operation(operation, formats)})
    for capability, part in parts:
        for operation in capability.operations:
            responses = part.responses(operation) | _problem_responses(operation)
            described = _request_part(operation, FEED_TAG, part.IN_PATH) | {"responses": responses}
            spec.path(operation.path, operations={"get": described})
    installed = {capability.name for capability in capabilities}
    for path, description in SERVICE_PATHS.items():
        if path != "/" or "site" in installed:
            spec.path(path, operations={"get": description})
    content = orjson.loads(text_with(installed, orjson.dumps(spec.to_dict()).decode()))
    return {"openapi": content.pop("openapi"), **content}


def _contact(contact: str) -> dict[str, str]:
    member = {"email" if "@" in contact and "://" not in contact else "url": contact} if contact else {}
    return {"name": "The provider of your key"} | member


def _add_components(spec: APISpec, formats: Sequence[RecordFormat], schemas: Sequence[dict[str, Any]]) -> None:
    for scheme, component in _SECURITY.items():
        spec.components.security_scheme(scheme, component)
    for name, component in HEADER_COMPONENTS.items():
        spec.components.header(name, component)
    for name, component in problem_responses().items():
        spec.components.response(name, component)
    for name, component in _schemas(formats, schemas).items():
        spec.components.schema(name, component)


def _schemas(formats: Sequence[RecordFormat], others: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    forms = [body for operation in OPERATIONS for body in response_bodies(operation)]
    records = {form.records.name: form.records.schema for form in forms}
    pages = {form.name: form.schema for form in forms if form.is_collection}
    features = {
        name: schema
        for operation in OPERATIONS
        for form in feature_bodies(operation, formats)
        for name, schema in form.schemas.items()
    }
    named = extract_titled_schemas({"Problem": PROBLEM_SCHEMA, "ProbeState": PROBE_STATE_SCHEMA} | records)
    described = named | pages | ({POINT_SCHEMA_NAME: POINT_SCHEMA} if features else {}) | features
    for schemas in others:
        described |= schemas
    return described


def _tag(operation: Operation) -> str:
    return response_of(operation).resource.alias.replace("_", " ").capitalize()


def _contract_operation(operation: Operation, formats: Sequence[RecordFormat]) -> dict[str, Any]:
    unchanged = {"description": NOT_MODIFIED, "headers": _headers(operation)}
    successful = {"200": _success_response(operation, formats), "304": unchanged}
    return _request_part(operation, _tag(operation), _IN_PATH, formats) | {
        "responses": successful | _problem_responses(operation)
    }


def _request_part(
    operation: Operation, tag: str, in_path: Mapping[str, Schema], formats: Sequence[RecordFormat] = ()
) -> dict[str, Any]:
    return {
        "tags": [tag],
        **operation_names(operation, formats),
        "parameters": [*path_parameters(operation.path, in_path), {"in": "query", "schema": operation.schema}],
    }


def _problem_responses(operation: Operation) -> dict[str, Any]:
    return {str(status): response_reference(status) for status in problem_statuses(operation)}


def _success_response(operation: Operation, formats: Sequence[RecordFormat]) -> dict[str, Any]:
    features = feature_bodies(operation, formats)
    return {
        "description": "The records." if response_bodies(operation)[0].is_collection else "The record.",
        "headers": _headers(operation),
        "content": {JSON: _content(response_bodies(operation))} | ({GEOJSON: _content(features)} if features else {}),
    }


def _content(forms: Sequence[ResponseBody | FeatureBody]) -> dict[str, Any]:
    return content_of({form.name: form.example for form in forms})


def _headers(operation: Operation) -> dict[str, dict[str, str]]:
    envelope = response_bodies(operation)[0].envelope
    paging: tuple[str, ...] = ()
    if envelope is Envelope.WALK_PAGE:
        paging = CURSOR_PAGE_HEADERS
    elif envelope is not Envelope.NONE:
        is_walk = UPDATED_SINCE in operation.schema.fields
        paging = NUMBERED_PAGE_HEADERS + (CURSOR_PAGE_HEADERS[1:] if is_walk else ())
    return operation_headers(*CACHE_HEADERS, *paging)


_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def create_document_handler(
    capabilities: tuple[Capability, ...], contact: str
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Build the document, which costs about as much as a hundred requests, and return its handler.

    `contact` is empty, a mail address or an https URL.
    """
    encoded_document(capabilities, contact)

    async def serve_document(request: web.Request) -> web.Response:
        coding = negotiate_coding(request.headers)
        return _compressed_document(capabilities, contact, coding).respond(request)

    return serve_document


@cache
def _compressed_document(
    capabilities: tuple[Capability, ...], contact: str, coding: ContentCoding
) -> PrecompressedBody:
    return precompress(encoded_document(capabilities, contact), coding, _HEADERS)
