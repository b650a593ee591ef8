"""The columns of properties: how one resource reads a property from a record."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from mappings import SOLD_LISTING
from mappings.data_dictionary.model import DictionaryEntity
from mappings.fields import Field, FieldKind
from mappings.legends import PROPERTY_TYPES
from mappings.resource import Resource
from service.reso.entity_sets.column_search import ColumnSearch, feature_search, member_search
from service.reso.entity_sets.edm_types import EDM_TYPE_BY_KIND, EdmType
from service.reso.entity_sets.sort_fields import CLOCK, ID
from service.reso.entity_sets.value_converters import converter_for, to_timestamp
from service.reso.filter.lookup_matchers import CodeMatcher, ConstantMatcher, PresenceMatcher
from service.reso.filter.matchers import IdentifierMatcher
from service.reso.filter.numeric_matchers import TimestampMatcher

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


@dataclass(frozen=True)
class PropertyColumn:
    """A property in one resource; `source_member` is the field of ours that it is made of.

    The value is the member's, through `convert`; with `of_header` it is read from the search fields, with `feature` it
    is the values of that property feature. `group` is the field group that a key needs to see it or to search by it;
    `reads` are the search fields it is read from; `lookup` are all its values, if they are known.
    """

    source_member: str
    convert: Callable[[Any], object] | None = None
    of_header: Callable[[EntityHeader], object] | None = None
    feature: str = ""
    is_exact: bool = False  # the source's fraction counts, which the member may have lost
    search: ColumnSearch = _NOT_SEARCHED
    group: str = ""
    reads: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()

    @property
    def is_of_record(self) -> bool:
        """Whether the value is that of the member in the record."""
        return not self.of_header and not self.feature


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
    """Return the column of a member of our records, as its own EDM type or another."""
    of_type = edm or EDM_TYPE_BY_KIND[member.kind]
    return PropertyColumn(
        member.name,
        converter_for(member.kind, of_type),
        is_exact=of_type is EdmType.DECIMAL and member.kind is FieldKind.INTEGER,
        search=member_search(resource, member, of_type),
        group=member.group,
    )


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
