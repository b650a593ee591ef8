"""The bodies of 200: every form of an operation's response, as a named schema with an example.

The forms follow from the operation's response and parameters: `underscore_response` adds the other spelling,
`timestamps_only` the short form, and the response names its envelopes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mappings.fields import View
from mappings.json_schema import UNDERSCORED_SUFFIX, record_schema, timestamps_schema
from mappings.resource import Resource
from service.openapi import examples
from service.operation import Operation
from service.request_context import UNDERSCORE_PARAMETER
from service.resources.listing_pages import FINAL_PAGE, RECORDS
from service.resources.response import BRIEF, Envelope, response_of

# The suffixes of body schema names.
_SUFFIXES = {
    Envelope.NONE: "",
    Envelope.ARRAY: "Array",
    Envelope.NUMBERED_PAGE: "Page",
    Envelope.WALK_PAGE: "Page",
}


@dataclass(frozen=True)
class RecordSchema:
    """A form of a resource's records."""

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
        """The schema of one record."""
        if self.brief:
            return timestamps_schema(self.resource, underscored=self.underscored)
        return record_schema(self.resource, self.view, underscored=self.underscored)

    @property
    def example(self) -> Any:
        """An example of one record."""
        if self.brief:
            return examples.example_timestamps(self.resource, underscored=self.underscored)
        return examples.example_record(self.resource, self.view, underscored=self.underscored)

    @property
    def reference(self) -> dict[str, str]:
        """The reference to its schema."""
        return {"$ref": f"#/components/schemas/{self.name}"}


@dataclass(frozen=True)
class ResponseBody:
    """A form of a response: a record, an array of records, or an object that contains the array."""

    records: RecordSchema
    envelope: Envelope

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingPage`."""
        return self.records.name + self.suffix

    @property
    def suffix(self) -> str:
        """The suffix of its schema name: empty, `Array` or `Page`."""
        return _SUFFIXES[self.envelope]

    @property
    def is_collection(self) -> bool:
        """Whether it holds several records."""
        return self.envelope is not Envelope.NONE

    @cached_property
    def schema(self) -> dict[str, object]:
        """The schema of the body."""
        if not self.is_collection:
            return self.records.schema
        array: dict[str, object] = {"type": "array", "items": self.records.reference}
        if self.envelope is Envelope.ARRAY:
            return array
        members = {**self.paging, self._records_member: array}
        return {"type": "object", "properties": members, "required": list(members)}

    @property
    def example(self) -> Any:
        """An example of the body."""
        if not self.is_collection:
            return self.records.example
        array = [self.records.example]
        if self.envelope is Envelope.ARRAY:
            return array
        paging = {name: True if schema["type"] == "boolean" else 1 for name, schema in self.paging.items()}
        return paging | {self._records_member: array}

    @property
    def _records_member(self) -> str:
        """The member that holds the records of a page."""
        if self.envelope is Envelope.WALK_PAGE:
            return RECORDS[self.records.underscored]
        return self.records.resource.alias

    @property
    def paging(self) -> dict[str, dict[str, Any]]:
        """The schemas of the other members of a page, by name."""
        if self.envelope is Envelope.WALK_PAGE:
            final = FINAL_PAGE[self.records.underscored]
            return {final: {"type": "boolean", "description": "True on the last page."}}
        positive = {"type": "integer", "minimum": 1}
        return {"page_number": positive, "total_pages": positive}


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
