"""The columns of properties: how one resource reads a property from a record, and how it matches it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappings import SOLD_LISTING
from mappings.fields import FieldKind
from mappings.legends import PROPERTY_TYPES
from mappings.search_fields import Conversion, FieldOrigin
from service.reso.entity_sets.edm_types import converter_for, to_texts, to_timestamp
from service.reso.filter.matchers import (
    BooleanMatcher,
    CodeMatcher,
    ConstantMatcher,
    IdentifierMatcher,
    KeywordMatcher,
    Matcher,
    PresenceMatcher,
)
from service.reso.filter.numeric_matchers import (
    DateMatcher,
    DecimalMatcher,
    OptionalIntegerMatcher,
    OptionalTimestampMatcher,
    TimestampMatcher,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mappings.data_dictionary.model import DictionaryEntity
    from mappings.fields import Field
    from mappings.resource import Resource
    from mappings.search_fields import SearchField
    from service.feed.hit_parser import DocumentHeader

Record = dict[str, Any]
# From a record and its search fields to the value of the property.
ReadValue = Callable[[Record, "DocumentHeader"], object]

STATUS_PROPERTY = "StandardStatus"
TYPE_PROPERTY = "PropertyType"
# By the type of a search field that holds a member verbatim.
_BY_MAPPING: dict[str, Callable[[str], Matcher]] = {
    "keyword": KeywordMatcher,
    "long": OptionalIntegerMatcher,
    "double": DecimalMatcher,
    "boolean": BooleanMatcher,
}
_SOLD = "Sold"
# Of the Data Dictionary's lookups MemberStatus and OfficeStatus; the other one is in the table.
_ACTIVE = "Active"


@dataclass(frozen=True)
class PropertyColumn:
    """A property in one resource; `source_member` is the field of ours that it is made of.

    `group` is the field group that a key needs to see it or to filter by it; `reads` are the search fields it is read
    from.
    """

    read: ReadValue
    source_member: str
    matcher: Matcher | None = None
    group: str = ""
    reads: tuple[str, ...] = ()


def key_column(resource: Resource) -> PropertyColumn:
    """Return the column of the key: our identifier."""
    name = resource.identifier
    return PropertyColumn(lambda record, _: record[name], name, IdentifierMatcher())


def modification_column() -> PropertyColumn:
    """Return the column of the last change: the clock of `updated_since`.

    The source's own timestamp does not serve: a consumer that has passed it would miss a record that arrives late. It
    also is a string of any precision and offset, which Elasticsearch cannot compare.
    """
    return PropertyColumn(lambda _, header: to_timestamp(header.clock), "updated_since", TimestampMatcher("clock"))


def field_column(resource: Resource, member: Field) -> PropertyColumn:
    """Return the column of a member of our records."""
    name, convert = member.name, converter_for(member.kind)
    return PropertyColumn(
        lambda record, _: convert(record.get(name)), name, _matcher_for(resource, member), member.group
    )


def _matcher_for(resource: Resource, member: Field) -> Matcher | None:
    """Return the matcher of a member: of a search field that is read from this member alone."""
    for indexed in resource.search_fields:
        if indexed.origin is FieldOrigin.RECORD and indexed.sources == (member.name,):
            return _comparison(indexed, member)
    return None


def _comparison(indexed: SearchField, member: Field) -> Matcher | None:
    """Return the matcher of a search field for literals of the member's type; None for a presence flag."""
    if indexed.conversion is Conversion.VERBATIM:
        if member.kind is FieldKind.UNIX:
            return None  # OData compares it as a timestamp: declare it with `timestamp`
        matcher_type = _BY_MAPPING.get(str(indexed.mapping["type"]))
        return matcher_type(indexed.name) if matcher_type else None
    if indexed.conversion is Conversion.DAY:
        return DateMatcher(indexed.name)
    return OptionalTimestampMatcher(indexed.name) if indexed.conversion is Conversion.TIMESTAMP else None


def activity_columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, PropertyColumn]]:
    """Yield the column of the activity status, if records of the resource can be deactivated."""
    inactive = entity.inactive
    if inactive is None or inactive.field is None or not inactive.among:
        return
    if any(indexed.name == "deactivated" for indexed in resource.search_fields):
        deactivated = inactive.among[0]
        matcher = PresenceMatcher("deactivated", deactivated, _ACTIVE)
        yield (
            inactive.field,
            PropertyColumn(
                lambda _, header: _ACTIVE if header.deactivated is None else deactivated,
                "deactivated",
                matcher,
                reads=("deactivated",),
            ),
        )


def lookup_columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, PropertyColumn]]:
    """Yield the columns of status and type, whose names map to codes of ours."""
    if entity.status:
        yield STATUS_PROPERTY, _status_column(entity, resource)
    if entity.type:
        yield TYPE_PROPERTY, _type_column(entity)


def _status_column(entity: DictionaryEntity, resource: Resource) -> PropertyColumn:
    ours: dict[str, str] = {}
    for name, status in entity.status.items():
        ours.setdefault(status, name)
    if resource is SOLD_LISTING:
        closed = ours[_SOLD]
        return PropertyColumn(lambda *_: closed, "Status", ConstantMatcher(closed, tuple(entity.status)))
    # Only the first name of a status is returned; the other names match nothing.
    codes = {name: (status,) if status and ours[status] == name else () for name, status in entity.status.items()}
    names = {status: name for status, name in ours.items() if status}
    return PropertyColumn(
        lambda record, _: names.get(str(record.get("Status"))), "Status", CodeMatcher("status", codes)
    )


def _type_column(entity: DictionaryEntity) -> PropertyColumn:
    name_by_number: dict[int, str] = {}
    for name, number in entity.type.items():
        name_by_number.setdefault(number, name.partition("/")[0])
    codes: dict[str, list[int]] = defaultdict(list)
    for number, name in name_by_number.items():
        codes[name].append(number)
    names = {PROPERTY_TYPES[number]: name for number, name in name_by_number.items()}
    matcher = CodeMatcher("property_type_id", {name: tuple(map(str, numbers)) for name, numbers in codes.items()})
    return PropertyColumn(lambda record, _: names.get(str(record.get("PropertyType"))), "PropertyType", matcher)


def feature_column(feature: str) -> PropertyColumn:
    """Return the column of a feature: all of its values in a record."""

    def read(record: Record, _: DocumentHeader) -> list[str]:
        matching = [item for item in record.get("PropertyFeatures") or () if item["PropertyFeatureName"] == feature]
        return [value for item in matching for value in to_texts(item["PropertyFeatureValues"])]

    return PropertyColumn(read, f"PropertyFeatures: {feature}")
