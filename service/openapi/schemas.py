"""Schemas of the OpenAPI document: parameters, bodies, headers and problems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson

from mappings.fields import View
from mappings.record_schema import UNDERSCORED_SUFFIX, record_schema, timestamps_schema
from mappings.resource import Resource
from service.examples import example_record, example_timestamps, example_variant
from service.operation import Operation
from service.request_context import UNDERSCORE_PARAMETER
from service.resources.responses import BRIEF, FINAL_PAGE, RECORDS, Envelope, RecordFormat, response_of
from service.scope import COMPANY_PARAMETER

Schema = dict[str, Any]

SCHEMA_REFERENCE = "#/components/schemas/{}"
NOT_MODIFIED = "Nothing has changed since the ETag that was sent."
CHARACTERS = r"[^\u0000-\u001f\u007f-\u009f]"
IDENTIFIER_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": f"^{CHARACTERS}+$"}


def extract_titled_schemas(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the schemas with every titled object replaced by a reference, preceded by these objects.

    Raise ValueError if two different objects have the same title.
    """
    extracted: dict[str, Schema] = {}
    referencing = {name: _with_references(schema, extracted) for name, schema in schemas.items()}
    if duplicates := extracted.keys() & referencing.keys():
        raise ValueError(f"{sorted(duplicates)} name both records and nested objects")
    return extracted | referencing


def _with_references(schema: Schema, extracted: dict[str, Schema]) -> Schema:
    if "properties" in schema:
        members = {name: _member_schema(member, extracted) for name, member in schema["properties"].items()}
        return {**schema, "properties": members}
    return {**schema, "items": _member_schema(schema["items"], extracted)} if "items" in schema else schema


def _member_schema(schema: Schema, extracted: dict[str, Schema]) -> Schema:
    if "title" not in schema:
        return _with_references(schema, extracted)
    types, described = schema["type"], {name: schema[name] for name in ("description",) if name in schema}
    named = {"type": "object"} | {name: schema[name] for name in ("properties", "required")}
    reference = {"$ref": SCHEMA_REFERENCE.format(schema["title"])}
    if extracted.setdefault(schema["title"], named) != named:
        raise ValueError(f"two different objects have the title {schema['title']}")
    return {"anyOf": [reference, {"type": "null"}], **described} if "null" in types else {**reference, **described}


_HEADER_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

HEADER_COMPONENTS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "Quote it when you report something.", "schema": _HEADER_TEXT},
    "RateLimit-Policy": {"description": "The quotas of the key and their windows in seconds.", "schema": _HEADER_TEXT},
    "RateLimit": {"description": "Remaining requests, and the seconds until there are more.", "schema": _HEADER_TEXT},
    "X-RateLimit-Limit": {"description": "Requests that may be sent at once: the burst.", "schema": _COUNT},
    "X-RateLimit-Remaining": {"description": "Remaining requests.", "schema": _COUNT},
    "X-RateLimit-Reset": {"description": "Seconds until the full burst is available again.", "schema": _COUNT},
    "Retry-After": {"description": "Seconds to wait before the next attempt.", "schema": _COUNT},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": _HEADER_TEXT},
    "ETag": {
        "description": "Send it as If-None-Match: the response is 304 while nothing has changed.",
        "schema": _HEADER_TEXT,
    },
    "Cache-Control": {"description": "Who may cache the response.", "schema": _HEADER_TEXT},
    "Link": {
        "description": "URLs, without the key: first, prev, next, last page that can be read; <!-- with changes -->"
        "alternate: the snapshot, if there are more records than pages reach; <!-- end -->deprecation, sunset.",
        "schema": _HEADER_TEXT,
    },
    "Deprecation": {
        "description": "The time since which the operation or a parameter that was sent is deprecated (RFC 9745).",
        "schema": _HEADER_TEXT | {"pattern": "^@[0-9]+$"},
    },
    "Sunset": {"description": "The time from which it may be removed (RFC 8594).", "schema": _HEADER_TEXT},
    "X-Page-Number": {"description": "The number of this page; the first is 1.", "schema": _COUNT | {"minimum": 1}},
    "X-Total-Pages": {
        "description": "The number of pages that can be read, at least 1. Pages reach 100,000 records.",
        "schema": _COUNT | {"minimum": 1},
    },
    "X-Total-Count": {
        "description": "The number of records, including those that pages do not reach.",
        "schema": _COUNT,
    },
    "Warning": {
        "description": "There are more records than numbered pages reach, or unknown parameters were ignored.",
        "schema": _HEADER_TEXT,
    },
    "Accept-Ranges": {"description": "The unit of ranges: bytes.", "schema": _HEADER_TEXT},
    "Content-Range": {"description": "Which bytes of the file these are, and its size.", "schema": _HEADER_TEXT},
    "Location": {
        "description": "Where the file is: a URL for some minutes, which needs no key.",
        "schema": _HEADER_TEXT,
    },
    "Repr-Digest": {"description": "The SHA-256 of the whole file (RFC 9530).", "schema": _HEADER_TEXT},
    "X-Next-Updated-Since": {
        "description": "With the first page: the updated_since of the next read of all pages; 0 before the first load.",
        "schema": _COUNT,
    },
}

# Reserved: documented before anything is deprecated, so that clients can already check for them.
DEPRECATION_HEADERS = ("Deprecation", "Sunset")
COMMON_HEADERS = ("X-Request-Id",)
RATE_LIMIT_HEADERS = (
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)
CACHE_HEADERS = ("ETag", "Cache-Control")
FILE_HEADERS = (*CACHE_HEADERS, "Accept-Ranges", "Repr-Digest")
NUMBERED_PAGE_HEADERS = ("Link", "X-Page-Number", "X-Total-Pages", "X-Total-Count", "Warning")
CURSOR_PAGE_HEADERS = ("Link", "X-Next-Updated-Since")


def header_references(*names: str) -> dict[str, dict[str, str]]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def operation_headers(*further: str) -> dict[str, dict[str, str]]:
    """Return the headers of a successful response of an operation that needs a key, with its own."""
    return header_references(*COMMON_HEADERS, *DEPRECATION_HEADERS, *RATE_LIMIT_HEADERS, *further)


_MESSAGE_TEXT = {"type": "string"}
_FAULT = {
    "type": "object",
    "title": "Fault",
    "properties": {"parameter": _MESSAGE_TEXT, "message": _MESSAGE_TEXT},
    "required": ["parameter", "message"],
}
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A problem document (RFC 9457).",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "Where the problem is described."},
        "title": _MESSAGE_TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "A sentence for people; it may change."},
        "instance": {"type": "string", "description": "The path of the request, without its query."},
        "code": {"type": "string", "description": "Stable, for programs."},
        "messages": {"type": "array", "items": _MESSAGE_TEXT, "minItems": 1},
        "errors": {"type": "array", "items": _FAULT, "description": "The parameters at fault, at most ten at once."},
        "request_id": _MESSAGE_TEXT,
    },
    "required": ["type", "title", "status", "detail", "instance", "code", "messages", "errors", "request_id"],
}

# By status: its meaning, and its headers in addition to the common ones.
_PROBLEMS_BY_STATUS: dict[int, tuple[str, tuple[str, ...]]] = {
    400: ("Parameters are missing or invalid: correct the request.", RATE_LIMIT_HEADERS),
    401: ("The key is missing, malformed, unknown, expired or revoked.", ("WWW-Authenticate",)),
    403: ("The key may not read what a parameter names, or not all of what files hold.", RATE_LIMIT_HEADERS),
    404: ("The key may read no such record, or no files are published.", RATE_LIMIT_HEADERS),
    410: ("The token is no longer valid<!-- with changes -->: take a snapshot<!-- end -->.", RATE_LIMIT_HEADERS),
    412: ("The file is not the one in If-Match.", RATE_LIMIT_HEADERS),
    414: ("The URL is longer than 8 KiB.", ()),
    416: ("The range lies outside the file.", (*RATE_LIMIT_HEADERS, "Content-Range")),
    429: ("Too many requests: retry after Retry-After seconds.", (*RATE_LIMIT_HEADERS, "Retry-After")),
    431: ("There are too many header fields, or they are too long.", ()),
    503: (
        "The search engine is unavailable or overloaded, or an index must be rebuilt: retry after Retry-After seconds.",
        (*RATE_LIMIT_HEADERS, "Retry-After"),
    ),
    504: (
        "The deadline has passed: retry after Retry-After seconds, or request less.",
        (*RATE_LIMIT_HEADERS, "Retry-After"),
    ),
}


def problem_statuses(operation: Operation) -> list[int]:
    """Return the error statuses of an operation; 500 is a defect and is not documented."""
    absent = set()
    if COMPANY_PARAMETER not in operation.schema.fields:
        absent.add(403)
    if "{" not in operation.path:
        absent.add(404)
    if "since" not in operation.schema.fields:
        absent.add(410)
    if "{file}" not in operation.path:
        absent |= {412, 416}
    return [status for status in _PROBLEMS_BY_STATUS if status not in absent]


def problem_responses() -> dict[str, dict[str, Any]]:
    return {response_name(status): _response(*_PROBLEMS_BY_STATUS[status]) for status in _PROBLEMS_BY_STATUS}


def response_name(status: int) -> str:
    return f"Problem{status}"


def response_reference(status: int) -> dict[str, str]:
    return {"$ref": f"#/components/responses/{response_name(status)}"}


def _response(meaning: str, headers: tuple[str, ...]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": meaning, "headers": header_references(*COMMON_HEADERS, *headers), "content": content}


def content_of(examples: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a response that has one of several forms, from an example of each by its schema's name."""
    references = [{"$ref": SCHEMA_REFERENCE.format(name)} for name in examples]
    return {
        "schema": references[0] if len(references) == 1 else {"anyOf": references},
        "examples": {name: {"value": example} for name, example in examples.items()},
    }


# The suffixes of body schema names.
_SUFFIXES = {
    Envelope.NONE: "",
    Envelope.ARRAY: "Array",
    Envelope.NUMBERED_PAGE: "Page",
    Envelope.WALK_PAGE: "Page",
}


@dataclass(frozen=True)
class RecordSchema:
    resource: Resource
    view: View
    underscored: bool = False
    brief: bool = False

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingTimestampsUnderscored`; equal views share one."""
        is_own = self.resource.view(self.view) != self.resource.view(View.INDEX)
        suffixes = {"Timestamps": self.brief, "Show": is_own, UNDERSCORED_SUFFIX: self.underscored}
        return self.resource.name + "".join(suffix for suffix, holds in suffixes.items() if holds)

    @property
    def schema(self) -> dict[str, object]:
        if self.brief:
            return timestamps_schema(self.resource, underscored=self.underscored)
        return record_schema(self.resource, self.view, underscored=self.underscored)

    @property
    def example(self) -> Any:
        if self.brief:
            return example_timestamps(self.resource, underscored=self.underscored)
        return example_record(self.resource, self.view, underscored=self.underscored)

    @property
    def reference(self) -> dict[str, str]:
        return {"$ref": f"#/components/schemas/{self.name}"}


@dataclass(frozen=True)
class ResponseBody:
    """A form of a response: a record, an array of records, or an object that contains the array."""

    records: RecordSchema
    envelope: Envelope

    @property
    def name(self) -> str:
        return self.records.name + self.suffix

    @property
    def suffix(self) -> str:
        return _SUFFIXES[self.envelope]

    @property
    def is_collection(self) -> bool:
        return self.envelope is not Envelope.NONE

    @cached_property
    def schema(self) -> dict[str, object]:
        if not self.is_collection:
            return self.records.schema
        array: dict[str, object] = {"type": "array", "items": self.records.reference}
        if self.envelope is Envelope.ARRAY:
            return array
        members = {**self.paging, self._records_member: array | {"description": "The records of the page."}}
        return {"type": "object", "properties": members, "required": list(members)}

    @property
    def example(self) -> Any:
        if not self.is_collection:
            return self.records.example
        array = [self.records.example]
        if self.envelope is Envelope.ARRAY:
            return array
        paging = {name: True if schema["type"] == "boolean" else 1 for name, schema in self.paging.items()}
        return paging | {self._records_member: array}

    @property
    def _records_member(self) -> str:
        if self.envelope is Envelope.WALK_PAGE:
            return RECORDS[self.records.underscored]
        return self.records.resource.alias

    @property
    def paging(self) -> dict[str, dict[str, Any]]:
        if self.envelope is Envelope.WALK_PAGE:
            final = FINAL_PAGE[self.records.underscored]
            return {final: {"type": "boolean", "description": "True on the last page."}}
        positive = {"type": "integer", "minimum": 1}
        return {
            "page_number": positive | {"description": "The number of this page; the first is 1."},
            "total_pages": positive | {"description": "The number of pages that can be read."},
        }


def response_bodies(operation: Operation) -> tuple[ResponseBody, ...]:
    """Return every form of an operation's response, the default one first."""
    envelopes = response_of(operation).envelopes(operation.schema)
    return tuple(ResponseBody(records, envelope) for envelope in envelopes for records in _record_schemas(operation))


def _record_schemas(operation: Operation) -> Iterator[RecordSchema]:
    response, parameters = response_of(operation), operation.schema.fields
    default = RecordSchema(response.resource, response.view)
    for brief in (False, True) if BRIEF in parameters else (False,):
        for underscored in (False, True) if UNDERSCORE_PARAMETER in parameters else (False,):
            yield replace(default, underscored=underscored, brief=brief)


_COORDINATES = {
    "type": "array",
    "description": "Longitude and latitude in decimal degrees, WGS 84.",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
}
POINT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"type": "string", "const": "Point"}, "coordinates": _COORDINATES},
    "required": ["type", "coordinates"],
}
POINT_SCHEMA_NAME = "Point"


@dataclass(frozen=True)
class FeatureBody:
    """A response form as GeoJSON, rendered by a format; `body` is the same form as JSON."""

    body: ResponseBody
    format: RecordFormat

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingFeatures`."""
        return f"{self._feature_name}s" if self.body.is_collection else self._feature_name

    @property
    def _feature_name(self) -> str:
        return f"{self.body.records.name}Feature"

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        return {self._feature_name: self._feature} | ({self.name: self._collection} if self.body.is_collection else {})

    @property
    def _feature(self) -> dict[str, Any]:
        geometry = {
            "anyOf": [{"$ref": SCHEMA_REFERENCE.format(POINT_SCHEMA_NAME)}, {"type": "null"}],
            "description": "Null: unknown.",
        }
        identifier = {"type": "string", "description": "The identifier of the record."}
        return _geojson_object(
            "Feature", {"id": identifier, "geometry": geometry, "properties": self.body.records.reference}
        )

    @property
    def _collection(self) -> dict[str, Any]:
        features = {"type": "array", "items": {"$ref": SCHEMA_REFERENCE.format(self._feature_name)}}
        return _geojson_object("FeatureCollection", {**self.body.paging, "features": features})

    @property
    def example(self) -> Any:
        records = self.body.records
        variant = example_variant(records.resource, records.view, underscored=records.underscored)
        encoded = orjson.dumps(records.example)
        collection = self.format.page(variant, [encoded], is_final=True)
        return orjson.loads(b"".join(collection if self.body.is_collection else self.format.record(variant, encoded)))


def feature_bodies(operation: Operation, formats: Sequence[RecordFormat]) -> tuple[FeatureBody, ...]:
    """Return every GeoJSON form of an operation's response, the default first; none without coordinates."""
    found = [form for form in formats if form.applies_to(response_of(operation).resource)]
    bodies = [body for body in response_bodies(operation) if not body.records.brief]
    return tuple(FeatureBody(body, form) for form in found for body in bodies)


def _geojson_object(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    properties = {"type": {"type": "string", "const": kind}, **members}
    return {"type": "object", "properties": properties, "required": list(properties)}
