"""The bodies of 200: every form of an operation's answer, as a named schema with an example.

Which forms an operation has follows from its path and its parameters: `underscore_response` brings the other spelling,
`timestamps_only` the short form, `envelope` the enclosed page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mappings import OFFICE, RESOURCES, Resource
from mappings.fields import View
from mappings.naming import underscore
from mappings.schema import UNDERSCORED, brief_schema, record_schema
from service.openapi import examples
from service.parameters.groups import Walked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.operation import Operation

_RESOURCES = {resource.alias: resource for resource in RESOURCES}
_ENCLOSED = frozenset({OFFICE})


@dataclass(frozen=True)
class Records:
    """A form of a resource's records."""

    resource: Resource
    view: View
    underscored: bool = False
    brief: bool = False

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingTimestampsUnderscored`; views that are alike share one."""
        is_own = self.resource.view(self.view) != self.resource.view(View.INDEX)
        marks = {"Timestamps": self.brief, "Show": is_own, UNDERSCORED: self.underscored}
        return self.resource.name + "".join(mark for mark, holds in marks.items() if holds)

    @property
    def schema(self) -> dict[str, object]:
        """The schema of one record."""
        if self.brief:
            return brief_schema(self.resource, underscored=self.underscored)
        return record_schema(self.resource, self.view, underscored=self.underscored)

    @property
    def example(self) -> Any:
        """An example of one record."""
        if self.brief:
            return examples.brief(self.resource, underscored=self.underscored)
        return examples.record(self.resource, self.view, underscored=self.underscored)

    @property
    def reference(self) -> dict[str, str]:
        """The reference to its schema."""
        return {"$ref": f"#/components/schemas/{self.name}"}


@dataclass(frozen=True)
class Body:
    """A form of an answer: a record, an array of records, or an object that holds one beside other members."""

    records: Records
    around: str = ""  # "", "Array" or "Page"

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingPage`."""
        return self.records.name + self.around

    @cached_property
    def schema(self) -> dict[str, object]:
        """The schema of the body."""
        if not self.around:
            return self.records.schema
        array: dict[str, object] = {"type": "array", "items": self.records.reference}
        if self.around == "Array":
            return array
        members = {**self.beside, self._held: array}
        return {"type": "object", "properties": members, "required": list(members)}

    @property
    def example(self) -> Any:
        """An example of the body."""
        if not self.around:
            return self.records.example
        array = [self.records.example]
        if self.around == "Array":
            return array
        return {name: True if schema["type"] == "boolean" else 1 for name, schema in self.beside.items()} | {
            self._held: array
        }

    @property
    def _is_walked(self) -> bool:
        return self.records.resource.alias in {"listings", "sold_listings"}

    @property
    def _held(self) -> str:
        if not self._is_walked:
            return self.records.resource.alias
        return underscore("Listings") if self.records.underscored else "Listings"

    @property
    def beside(self) -> dict[str, dict[str, Any]]:
        """The schemas of the members beside the records of a page, by name."""
        if self._is_walked:
            final = underscore("FinalPage") if self.records.underscored else "FinalPage"
            return {final: {"type": "boolean", "description": "True on the last page."}}
        whole = {"type": "integer", "minimum": 1}
        return {"page_number": whole, "total_pages": whole}


def resource_of(operation: Operation) -> Resource:
    """Return the resource of an operation: its path begins with the alias."""
    return _RESOURCES[operation.path.split("/")[1]]


def is_index(operation: Operation) -> bool:
    """Tell whether an operation answers a collection."""
    return "{" not in operation.path


def is_walked(operation: Operation) -> bool:
    """Tell whether an operation is paged by the last identifier."""
    return isinstance(operation.schema, Walked)


def bodies(operation: Operation) -> tuple[Body, ...]:
    """Return every form of an operation's answer, the default one first."""
    return tuple(Body(records, around) for around in _around(operation) for records in _records(operation))


def _records(operation: Operation) -> Iterator[Records]:
    whole = Records(resource_of(operation), View.INDEX if is_index(operation) else View.SHOW)
    spellings = (False, True) if "underscore_response" in operation.schema.fields else (False,)
    lengths = (False, True) if "timestamps_only" in operation.schema.fields else (False,)
    for brief in lengths:
        for underscored in spellings:
            yield replace(whole, underscored=underscored, brief=brief)


def _around(operation: Operation) -> tuple[str, ...]:
    if not is_index(operation):
        return ("",)
    if is_walked(operation) or resource_of(operation) in _ENCLOSED:
        return ("Page",)
    return ("Array", "Page") if "envelope" in operation.schema.fields else ("Array",)
