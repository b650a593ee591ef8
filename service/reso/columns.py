"""One property of one of our resources: how it is read from a record, and how a record is found by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappings import SOLD_LISTING
from mappings.legends import PROPERTY_TYPES
from mappings.search import Origin
from service.reso.edm import bring, moment, texts
from service.reso.exact import Coded, Constant, Found, Identifier, Keyword, Presence
from service.reso.measured import Day, Moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mappings.dictionary import Entity
    from mappings.fields import Field
    from mappings.resource import Resource
    from mappings.search import SearchField
    from service.feed.hits import Head

Record = dict[str, Any]
# From a record and the search fields beside it to the value that is answered.
Read = Callable[[Record, "Head"], object]

STATUS = "StandardStatus"
TYPE = "PropertyType"
_SOLD = "Sold"
# Of the Data Dictionary's lookups MemberStatus and OfficeStatus; the other one is in the table.
_ACTIVE = "Active"


@dataclass(frozen=True)
class Column:
    """A property in one resource, made `of` a member of ours.

    `group` is what a key must be granted to see it or to filter by it.
    """

    read: Read
    of: str
    found: Found | None = None
    group: str = ""


def keyed(resource: Resource) -> Column:
    """Return the column of the key: our identifier."""
    name = resource.identifier
    return Column(lambda record, _: record[name], name, Identifier())


def modified() -> Column:
    """Return the column of the time of the last change: the clock by which nothing is missed.

    The source's own time is no such clock: a record that comes late would lie behind what a consumer has read. It is a
    text of any precision and offset besides, which Elasticsearch cannot compare.
    """
    return Column(lambda _, head: moment(head.clock), "updated_since", Moment("clock"))


def copied(resource: Resource, member: Field) -> Column:
    """Return the column of a member of our records."""
    name, brought = member.name, bring(member.kind)
    return Column(lambda record, _: brought(record.get(name)), name, _found(resource, name), member.group)


def _found(resource: Resource, name: str) -> Found | None:
    """Return how records are found by a member: by a search field that is made of it alone, and as it is."""
    for indexed in resource.filters:
        if indexed.origin is Origin.RECORD and indexed.sources == (name,):
            return Day(indexed.name) if indexed.is_day else _keyword(indexed)
    return None


def _keyword(indexed: SearchField) -> Found | None:
    is_text = indexed.mapping["type"] == "keyword" and not indexed.is_presence
    return Keyword(indexed.name) if is_text else None


def stated(entity: Entity, resource: Resource) -> Iterator[tuple[str, Column]]:
    """Yield the column that says whether a record is deactivated, where our records can be."""
    inactive = entity.inactive
    if inactive is None or inactive.field is None or not inactive.among:
        return
    if any(indexed.name == "deactivated" for indexed in resource.filters):
        gone = inactive.among[0]
        found = Presence("deactivated", gone, _ACTIVE)
        yield (
            inactive.field,
            Column(lambda _, head: _ACTIVE if head.deactivated is None else gone, "deactivated", found),
        )


def coded(entity: Entity, resource: Resource) -> Iterator[tuple[str, Column]]:
    """Yield the columns of status and type, whose names stand for codes of ours."""
    if entity.status:
        yield STATUS, _status(entity, resource)
    if entity.type:
        yield TYPE, _type(entity)


def _status(entity: Entity, resource: Resource) -> Column:
    ours: dict[str, str] = {}
    for name, status in entity.status.items():
        ours.setdefault(status, name)
    if resource is SOLD_LISTING:
        closed = ours[_SOLD]
        return Column(lambda *_: closed, "Status", Constant(closed, tuple(entity.status)))
    # A name that is not the first of those that lead to a status is answered for none.
    codes = {name: (status,) if status and ours[status] == name else () for name, status in entity.status.items()}
    told = {status: name for status, name in ours.items() if status}
    return Column(lambda record, _: told.get(str(record.get("Status"))), "Status", Coded("status", codes))


def _type(entity: Entity) -> Column:
    told: dict[int, str] = {}
    for name, number in entity.type.items():
        told.setdefault(number, name.partition("/")[0])
    codes: dict[str, list[int]] = defaultdict(list)
    for number, name in told.items():
        codes[name].append(number)
    names = {PROPERTY_TYPES[number]: name for number, name in told.items()}
    found = Coded("property_type_id", {name: tuple(map(str, numbers)) for name, numbers in codes.items()})
    return Column(lambda record, _: names.get(str(record.get("PropertyType"))), "PropertyType", found)


def featured(feature: str) -> Column:
    """Return the column of a feature: all values that a record has under its name."""

    def read(record: Record, _: Head) -> list[str]:
        found = [each for each in record.get("PropertyFeatures") or () if each["PropertyFeatureName"] == feature]
        return [value for each in found for value in texts(each["PropertyFeatureValues"])]

    return Column(read, f"PropertyFeatures: {feature}")
