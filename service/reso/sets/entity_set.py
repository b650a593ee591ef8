"""An entity set: its properties, and the column of each in the resources whose records it reads.

A column is how one resource reads a property from a record and how it is searched: the matcher and the sort field
follow from the declared search fields.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from mappings import SOLD_LISTING
from mappings.data_dictionary import DictionaryEntity
from mappings.fields import Field, FieldKind
from mappings.history import DICTIONARY_FIELDS, decode_past, dictionary_values
from mappings.listing import HISTORY, PROPERTY_TYPES
from mappings.resource import Resource
from mappings.search_fields import Conversion, FieldOrigin, SearchField
from service.reso.filter.clauses import (
    BooleanMatcher,
    CollectionMatcher,
    IdentifierMatcher,
    KeywordMatcher,
    Matcher,
    MissingPropertyMatcher,
)
from service.reso.filter.value_matchers import (
    CodeMatcher,
    ConstantMatcher,
    DateMatcher,
    DecimalMatcher,
    OptionalIntegerMatcher,
    OptionalTimestampMatcher,
    PresenceMatcher,
    TimestampMatcher,
)
from service.reso.ordering import CLOCK, ID, SortField, sort_field
from service.reso.sets.edm_types import EDM_TYPE_BY_KIND, EdmType, converter_for, to_timestamp
from service.search.query import was_withheld

# By the type of a search field that holds a member verbatim.
_BY_MAPPING: dict[str, Callable[[str], Matcher]] = {
    "keyword": KeywordMatcher,
    "long": OptionalIntegerMatcher,
    "double": DecimalMatcher,
    "boolean": BooleanMatcher,
}
_BY_CONVERSION: dict[tuple[Conversion, EdmType], Callable[[str], Matcher]] = {
    (Conversion.DAY, EdmType.DATE): DateMatcher,
    (Conversion.DAY, EdmType.DATE_TIME): OptionalTimestampMatcher,
    (Conversion.TIMESTAMP, EdmType.DATE_TIME): OptionalTimestampMatcher,
    (Conversion.EXACT, EdmType.DECIMAL): DecimalMatcher,
    (Conversion.TEXT, EdmType.STRING): KeywordMatcher,
}


class ColumnSearch(NamedTuple):
    """The matcher of a column's comparisons and its sort field; None if the index cannot answer them."""

    matcher: Matcher | None = None
    sort: SortField | None = None
    fields: tuple[str, ...] = ()  # the search fields that both use, besides those of every resource


def member_search(resource: Resource, member: Field, edm: EdmType) -> ColumnSearch:
    """Return how a member is searched: by a search field that is read from this member alone."""
    for indexed in resource.search_fields:
        if indexed.origin is FieldOrigin.RECORD and indexed.sources == (member.name,):
            if matcher := _comparison(indexed, member, edm):
                return ColumnSearch(matcher, sort_field(indexed), (indexed.name,))
            return ColumnSearch()
    return ColumnSearch()


def _comparison(indexed: SearchField, member: Field, edm: EdmType) -> Matcher | None:
    """Return the matcher of a search field for literals of the property's type; None for a presence flag."""
    if indexed.conversion is not Conversion.VERBATIM:
        make = _BY_CONVERSION.get((indexed.conversion, edm))
    elif member.kind is FieldKind.UNIX:
        make = None  # OData compares it as a timestamp: declare it with `timestamp`
    else:
        make = _BY_MAPPING.get(str(indexed.mapping["type"]))
    return make(indexed.name) if make else None


def feature_search(resource: Resource, feature: str) -> ColumnSearch:
    for indexed in resource.search_fields:
        if indexed.conversion is Conversion.FEATURE and indexed.feature == feature:
            return ColumnSearch(CollectionMatcher(indexed.name), None, (indexed.name,))
    return ColumnSearch()


STATUS_PROPERTY = "StandardStatus"
TYPE_PROPERTY, SUBTYPE_PROPERTY = "PropertyType", "PropertySubType"
FEATURES_MEMBER = "PropertyFeatures"
_SOLD = "Sold"
# Of the Data Dictionary's lookups MemberStatus and OfficeStatus; the other one is in the table.
_ACTIVE, _INACTIVE = "Active", "Inactive"
_ACTIVITY: dict[object, str] = {True: _ACTIVE, False: _INACTIVE}
_NOT_SEARCHED = ColumnSearch()


class EntityHeader(msgspec.Struct, gc=False):
    """The search fields that properties are read from.

    `exact` has the numbers that are rounded in the record, by the members' names.
    """

    id: str
    clock: int  # milliseconds since 1970
    deactivated: int | None = None  # milliseconds since 1970
    exact: dict[str, float] | None = None
    property_time_zone: str | None = None
    # What earlier states are read from (`mappings.history`), and what the Data Dictionary derives from it, once asked.
    past: str = ""
    history: dict[str, Any] | None = None
    status: str | None = None
    changed: list[int] = []
    derived: dict[str, Any] | None = None

    @property
    def has_history(self) -> bool:
        return bool(self.past or self.history)

    def hide_history(self) -> None:
        """Forget earlier states if the listing was withheld in one of them."""
        if self.has_history and was_withheld(self.changed):
            self.past, self.history = "", None


@dataclass(frozen=True)
class PropertyColumn:
    """A property in one resource; `source_member` is the field of ours that it is made of.

    The value is the member's, through `convert`, or what `otherwise` reads from the search fields if that is null; with
    `of_header` it is read from the search fields, with `feature` it is the values of that property feature. `group` is
    the field group that a key needs to see it or to search by it; `reads` are the search fields it is read from;
    `lookup` are all its values, if they are known.
    """

    source_member: str
    convert: Callable[[Any], object] | None = None
    of_header: Callable[[EntityHeader], object] | None = None
    otherwise: Callable[[EntityHeader], object] | None = None
    feature: str = ""
    is_exact: bool = False  # the source's fraction counts, which the member may have lost
    search: ColumnSearch = _NOT_SEARCHED
    group: str = ""
    reads: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()

    @property
    def is_filterable(self) -> bool:
        return self.search.matcher is not None

    @property
    def is_sortable(self) -> bool:
        return self.search.sort is not None

    @property
    def is_of_record(self) -> bool:
        """Whether the value is that of the member in the record."""
        return not self.of_header and not self.feature and self.source_member != HISTORY


def key_column(resource: Resource) -> PropertyColumn:
    """Return the column of the key: our identifier."""
    return PropertyColumn(resource.identifier, search=ColumnSearch(IdentifierMatcher(), ID))


def modification_column() -> PropertyColumn:
    """Return the column of the last change: the clock of `updated_since`.

    The source's own timestamp does not serve: a consumer that has passed it would miss a record that arrives late. It
    also is a string of any precision and offset, which Elasticsearch cannot compare.
    """
    return PropertyColumn(
        "updated_since",
        of_header=lambda header: to_timestamp(header.clock),
        search=ColumnSearch(TimestampMatcher("clock"), CLOCK),
    )


def field_column(resource: Resource, member: Field, edm: EdmType | None = None) -> PropertyColumn:
    of_type = edm or EDM_TYPE_BY_KIND[member.kind]
    return PropertyColumn(
        member.name,
        converter_for(member.kind, of_type),
        is_exact=of_type is EdmType.DECIMAL and member.kind is FieldKind.INTEGER,
        search=member_search(resource, member, of_type),
        group=member.group,
    )


def time_zone_columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, PropertyColumn]]:
    """Yield the column of the time zone, if open houses of the resource are in one."""
    if entity.time_zone_sources and resource.zone_of is not None:
        (name, *_) = entity.time_zone_sources[0].own_fields
        yield name, PropertyColumn(resource.zone_of.member, of_header=lambda header: header.property_time_zone)


def history_columns(entity: DictionaryEntity, resource: Resource) -> dict[str, tuple[EdmType, PropertyColumn]]:
    """Return the columns of what is known of earlier states, with their types, by the names of the properties."""
    types = {**EDM_TYPE_BY_KIND, FieldKind.NUMBER: EdmType.DECIMAL, FieldKind.DATE_TIME: EdmType.DATE_TIME}
    kinds = {declared.name: types[declared.kind] for declared in DICTIONARY_FIELDS}
    return {
        sources[0].own_fields[0]: (
            kinds[name],
            PropertyColumn(HISTORY, otherwise=partial(_history_value, resource=resource, name=name, edm=kinds[name])),
        )
        for name, sources in entity.history_sources.items()
    }


def _history_value(header: EntityHeader, resource: Resource, name: str, edm: EdmType) -> object:
    if header.derived is None:
        present = {"Status": header.status or _SOLD}
        header.derived = dictionary_values(resource, decode_past(header.past), header.history, present)
    value = header.derived.get(name)
    return to_timestamp(value) if edm is EdmType.DATE_TIME and value is not None else value


def activity_columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, PropertyColumn]]:
    """Yield the column of the activity status, if records of the resource can be deactivated."""
    inactive = entity.inactive
    if inactive is None or inactive.field is None or not inactive.among:
        return
    if any(indexed.name == "deactivated" for indexed in resource.search_fields):
        deactivated = inactive.among[0]
        yield (
            inactive.field,
            PropertyColumn(
                "deactivated",
                of_header=lambda header: _ACTIVE if header.deactivated is None else deactivated,
                search=ColumnSearch(PresenceMatcher("deactivated", deactivated, _ACTIVE)),
                reads=("deactivated",),
                lookup=(_ACTIVE, deactivated),
            ),
        )


def lookup_columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, PropertyColumn]]:
    """Yield the columns of status and type, whose names map to codes of ours."""
    if entity.status:
        yield STATUS_PROPERTY, _status_column(entity, resource)
    if entity.type:
        yield TYPE_PROPERTY, _type_column(entity, is_subtype=False)
        yield SUBTYPE_PROPERTY, _type_column(entity, is_subtype=True)
    for member in resource.stored:
        sources = entity.sources_for(member.name)
        if len(sources) == 1 and sources[0].field and sources[0].among == (_ACTIVE,):
            yield sources[0].field, PropertyColumn(member.name, _ACTIVITY.get, lookup=(_ACTIVE, _INACTIVE))


def _status_column(entity: DictionaryEntity, resource: Resource) -> PropertyColumn:
    ours: dict[str, str] = {}
    for name, status in entity.status.items():
        ours.setdefault(status, name)
    if resource is SOLD_LISTING:
        closed = ours[_SOLD]
        matcher = ConstantMatcher(closed, tuple(entity.status))
        return PropertyColumn("Status", of_header=lambda _: closed, search=ColumnSearch(matcher), lookup=(closed,))
    # Only the first name of a status is returned; the other names match nothing.
    codes = {name: (status,) if status and ours[status] == name else () for name, status in entity.status.items()}
    names = {status: name for status, name in ours.items() if status}
    return PropertyColumn(
        "Status",
        lambda value: names.get(str(value)),
        search=ColumnSearch(CodeMatcher("status", codes)),
        lookup=tuple(names.values()),
    )


def _type_column(entity: DictionaryEntity, *, is_subtype: bool) -> PropertyColumn:
    """Return the column of the type, or of the subtype: numbers of types without one have none."""
    name_by_number: dict[int, str] = {}
    for name, number in entity.type.items():
        name_by_number.setdefault(number, name.partition("/")[2 if is_subtype else 0])
    codes: dict[str, list[int]] = defaultdict(list)
    for number, name in name_by_number.items():
        if name:
            codes[name].append(number)
    names = {PROPERTY_TYPES[number]: name or None for number, name in name_by_number.items()}
    matcher = CodeMatcher("property_type_id", {name: tuple(map(str, numbers)) for name, numbers in codes.items()})
    return PropertyColumn(
        "PropertyType", lambda value: names.get(str(value)), search=ColumnSearch(matcher), lookup=tuple(codes)
    )


def feature_column(resource: Resource, feature: str) -> PropertyColumn:
    """Return the column of a feature: all of its values in a record."""
    return PropertyColumn(FEATURES_MEMBER, feature=feature, search=feature_search(resource, feature))


@dataclass(frozen=True)
class EntityProperty:
    """A property of an entity: its name, its type, and its column in each resource that has it."""

    name: str
    edm: EdmType
    columns: dict[Resource, PropertyColumn] = field(hash=False)
    is_key: bool = False

    @property
    def is_filterable(self) -> bool:
        """Whether `$filter` accepts it."""
        return all(column.is_filterable for column in self.columns.values())

    @property
    def lookup(self) -> tuple[str, ...]:
        """The values of a lookup with a fixed set of them, empty for any other property."""
        return tuple(dict.fromkeys(value for column in self.columns.values() for value in column.lookup))

    @property
    def is_sortable(self) -> bool:
        """Whether `$orderby` accepts it."""
        return all(column.is_sortable for column in self.columns.values())

    def matcher(self, resource: Resource) -> Matcher | None:
        """Return its matcher for a resource, None if it cannot be filtered."""
        if resource in self.columns:
            return self.columns[resource].search.matcher
        like = next(iter(self.columns.values())).search.matcher
        return MissingPropertyMatcher(like) if like is not None and self.is_filterable else None

    def sort_field(self, resource: Resource) -> SortField | None:
        """Return the field that sorts the records of a resource, None if they cannot be sorted by it."""
        if resource in self.columns:
            return self.columns[resource].search.sort
        like = next(iter(self.columns.values())).search.sort
        return like._replace(is_absent=True) if like is not None else None


@dataclass(frozen=True)
class EntitySet:
    """An entity set: the records of one or more resources. Its entity type has the same name."""

    name: str
    key: str
    resources: tuple[Resource, ...]
    properties: dict[str, EntityProperty] = field(hash=False)

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return f"Records of {' and '.join(f'`{resource.alias}`' for resource in self.resources)}."

    @property
    def filterable(self) -> tuple[str, ...]:
        """The properties that `$filter` accepts."""
        return tuple(name for name, declared in self.properties.items() if declared.is_filterable)

    @property
    def sortable(self) -> tuple[str, ...]:
        """The properties that `$orderby` accepts."""
        return tuple(name for name, declared in self.properties.items() if declared.is_sortable)
