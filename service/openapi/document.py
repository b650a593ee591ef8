"""The whole document, put together by apispec."""

from __future__ import annotations

import inspect
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import orjson
from apispec import APISpec

from service.authentication import HEADER, QUERY
from service.headers import LINK
from service.media import GEOJSON, JSON
from service.openapi import feed, problems
from service.openapi.answers import bodies, is_index, is_walked, resource_of
from service.openapi.features import POINT, POINT_NAME, features
from service.openapi.headers import (
    HEADERS,
    OF_A_BODY,
    OF_A_KEY,
    OF_A_NUMBERED_PAGE,
    OF_A_WALK,
    OF_AN_OPERATION,
    OF_EVERY_ANSWER,
    references,
)
from service.openapi.nested import REFERENCE, apart
from service.openapi.parameters import in_path, plugin
from service.openapi.service_paths import SERVICE_PATHS, SERVICE_TAG, STATE
from service.resources import FEED_OPERATIONS, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.openapi.answers import Body
    from service.openapi.features import Features
    from service.operation import Operation

_ABOUT = """A read-only API for real-estate brokerage data: listings, sold listings, agents, offices, teams, companies.

Members may be added to answers at any time: ignore those that you do not know. Every member of a form is always there,
`null` where there is no value and `[]` for an empty array. HEAD and OPTIONS work wherever GET does."""

FEED_TAG = "Feed"
_UNCHANGED = "Nothing has changed since the ETag that was sent."
_SECURITY = {
    "apiKeyHeader": {"type": "apiKey", "in": "header", "name": HEADER, "description": "The better place for a key."},
    "apiKeyQuery": {"type": "apiKey", "in": "query", "name": QUERY, "description": "URLs end up in logs."},
}


@cache
def encoded_document() -> bytes:
    """Return the document as it is served, printed and kept in `docs/openapi.json`."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def document() -> dict[str, Any]:
    """Return the document: an OpenAPI 3.1 object."""
    spec = APISpec(
        title="Brokerage data API",
        version=version("brokerage"),
        openapi_version="3.1.0",
        plugins=[plugin()],
        info={"description": _ABOUT, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        servers=[{"url": "/v1"}],
        security=[{scheme: []} for scheme in _SECURITY],
        tags=[{"name": tag} for tag in dict.fromkeys(map(_tag, OPERATIONS))]
        + [{"name": FEED_TAG}, {"name": SERVICE_TAG}],
    )
    _add_components(spec)
    for operation in OPERATIONS:
        spec.path(operation.path, operations={"get": _described(operation)})
    for operation in FEED_OPERATIONS:
        spec.path(operation.path, operations={"get": _of_the_feed(operation)})
    for path, described in SERVICE_PATHS.items():
        spec.path(path, operations={"get": described})
    made = spec.to_dict()
    return {"openapi": made.pop("openapi"), **made}


def _add_components(spec: APISpec) -> None:
    for scheme, component in _SECURITY.items():
        spec.components.security_scheme(scheme, component)
    for name, component in HEADERS.items():
        spec.components.header(name, component)
    for name, component in problems.responses().items():
        spec.components.response(name, component)
    for name, component in _schemas().items():
        spec.components.schema(name, component)


def _schemas() -> dict[str, dict[str, Any]]:
    forms = [body for operation in OPERATIONS for body in bodies(operation)]
    records = {form.records.name: form.records.schema for form in forms}
    pages = {form.name: form.schema for form in forms if form.around}
    placed = {name: schema for each in OPERATIONS for form in features(each) for name, schema in form.schemas.items()}
    named = apart({"Problem": problems.PROBLEM, "ProbeState": STATE} | records)
    return named | pages | {POINT_NAME: POINT} | placed | feed.SCHEMAS


def _tag(operation: Operation) -> str:
    return resource_of(operation).alias.replace("_", " ").capitalize()


def _described(operation: Operation) -> dict[str, Any]:
    unchanged = {"description": _UNCHANGED, "headers": _headers(operation)}
    return _asked(operation, _tag(operation)) | {
        "responses": {"200": _answer(operation), "304": unchanged, **_refused(operation)}
    }


def _of_the_feed(operation: Operation) -> dict[str, Any]:
    answer = feed.answer(operation.path)
    unchanged = {"description": _UNCHANGED, "headers": answer["headers"]}
    is_tagged = feed.is_tagged(operation.path)
    return _asked(operation, FEED_TAG) | {
        "responses": {"200": answer, **({"304": unchanged} if is_tagged else {}), **_refused(operation)}
    }


def _asked(operation: Operation, tag: str) -> dict[str, Any]:
    announced = operation.deprecated
    return {
        "tags": [tag],
        **({"deprecated": True, "description": announced.sentence} if announced else {}),
        "operationId": operation.handler.__name__,
        "summary": (inspect.getdoc(operation.handler) or "").partition("\n")[0].rstrip("."),
        "parameters": [*in_path(operation.path), {"in": "query", "schema": operation.schema}],
    }


def _refused(operation: Operation) -> dict[str, Any]:
    return {str(status): problems.reference(status) for status in problems.statuses(operation)}


def _answer(operation: Operation) -> dict[str, Any]:
    placed = features(operation)
    return {
        "description": "The record." if not is_index(operation) else "The records.",
        "headers": _headers(operation),
        "content": {JSON: _content(bodies(operation))} | ({GEOJSON: _content(placed)} if placed else {}),
    }


def _content(forms: Sequence[Body | Features]) -> dict[str, Any]:
    references = [{"$ref": REFERENCE.format(form.name)} for form in forms]
    return {
        "schema": references[0] if len(references) == 1 else {"anyOf": references},
        "examples": {form.name: {"value": form.example} for form in forms},
    }


def _headers(operation: Operation) -> dict[str, dict[str, str]]:
    paging: tuple[str, ...] = ()
    if is_walked(operation):
        paging = OF_A_WALK
    elif is_index(operation):
        paging = OF_A_NUMBERED_PAGE
        if "updated_since" in operation.schema.fields:
            paging += OF_A_WALK[1:]
    if operation.announced:
        paging += (LINK,)
    return references(*OF_EVERY_ANSWER, *OF_AN_OPERATION, *OF_A_KEY, *OF_A_BODY, *paging)
