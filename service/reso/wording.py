"""The rows of an entity set as a request words them: by the names of its properties, in questions and in answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import orjson

from mappings.fields import View
from service.errors import Forbidden, InvalidRequest
from service.query import Selection, identified
from service.reso.clauses import clause_of
from service.reso.options import FILTER, ORDER, SELECT
from service.reso.ordering import BY_KEY, ordering
from service.reso.records import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings.resource import Resource
    from service.operation import Call
    from service.reso.entities import EntitySet, Property
    from service.reso.exact import Found
    from service.reso.records import Row
    from service.reso.token import Position, Walk


@dataclass(frozen=True)
class Entities:
    """The entities that a request asks for."""

    call: Call
    entity_set: EntitySet
    records: Records
    properties: tuple[Property, ...]

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.entity_set.name

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types of the values of a position."""
        return self.records.ordering.kinds

    async def begun(self, walk: Walk) -> Walk:
        """Return the walk as it is."""
        return walk

    async def rows(self, walk: Walk, size: int) -> list[Row]:
        """Return the first rows behind the position of a walk."""
        return await self.records.rows(walk.position, size)

    async def skipped(self, number: int) -> Position | None:
        """Return the position behind so many rows, None where there are not as many."""
        return await self.records.skipped(number)

    async def count(self) -> int:
        """Return how many rows there are in all."""
        return await self.records.count()

    def position(self, row: Row) -> Position:
        """Return the place of a row."""
        return row.position

    def encoded(self, rows: Sequence[Row]) -> list[bytes]:
        """Return records as JSON objects of properties, in the order of the rows.

        They come in the form that the key may see: what is withheld is empty before a name is given to anything.
        """
        made: dict[int, bytes] = {}
        for resource in {row.resource for row in rows}:
            own = [(at, row) for at, row in enumerate(rows) if row.resource == resource]
            shown = self.call.variant(resource, View.INDEX, whole=True).encode([row.record or b"" for _, row in own])
            for (at, row), record in zip(own, shown, strict=True):
                made[at] = _object(self.properties, resource, row, orjson.loads(record))
        return [made[at] for at in range(len(rows))]


def entities(call: Call, entity_set: EntitySet) -> Entities:
    """Return the entities that the options of a request choose; raise InvalidRequest or Forbidden."""
    sent = call.parameters[FILTER]
    selections = []
    for resource in entity_set.resources:
        finding = partial(_found, call, entity_set, resource)
        clauses = () if sent is None else (clause_of(sent.expression, finding),)
        selections.append(Selection(resource, call.scope, clauses))
    by = ordering(entity_set, call.parameters[ORDER] or ())
    return Entities(call, entity_set, Records(call, tuple(selections), by), _chosen(call, entity_set))


def entity(call: Call, entity_set: EntitySet, key: str) -> Entities:
    """Return the one entity with a key, if there is."""
    selections = tuple(Selection(each, call.scope, (identified(key),)) for each in entity_set.resources)
    return Entities(call, entity_set, Records(call, selections, BY_KEY), _chosen(call, entity_set))


def _found(call: Call, entity_set: EntitySet, resource: Resource, name: str) -> Found:
    known = entity_set.properties.get(name)
    if known is None:
        raise InvalidRequest.of(FILTER, f"{entity_set.name} has no property {name!r}.")
    groups = {column.group for column in known.columns.values()}
    if hidden := groups & call.withheld:
        raise Forbidden.of(FILTER, f"this key may not see the field group {hidden.pop()}.")
    found = known.found(resource)
    if found is None:
        filtered = ", ".join(entity_set.filtered)
        raise InvalidRequest.of(FILTER, f"{name} cannot be filtered by; these can: {filtered}.")
    return found


def _chosen(call: Call, entity_set: EntitySet) -> tuple[Property, ...]:
    """Return the properties to answer, the key always among them; raise InvalidRequest."""
    names, known = call.parameters[SELECT], entity_set.properties
    if names is None:
        return tuple(known.values())
    if unknown := [name for name in names if name not in known]:
        raise InvalidRequest.of(SELECT, f"{entity_set.name} has no property {unknown[0]!r}.")
    return tuple(each for name, each in known.items() if each.is_key or name in names)


def _object(properties: Sequence[Property], resource: Resource, row: Row, record: dict[str, object]) -> bytes:
    values = {}
    for each in properties:
        column = each.columns.get(resource)
        empty: list[str] | None = [] if each.edm.is_collection else None
        values[each.name] = empty if column is None else column.read(record, row.place)  # type: ignore[arg-type]
    return orjson.dumps(values)
