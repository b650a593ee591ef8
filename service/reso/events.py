"""EntityEvent: every change of a record that the key may read, deletions included, by the numbers of the ledger.

A document that changed is one event: the last, as everywhere in the feed. What has gone is one too, and what has gone
to a company that the key may not read. Nothing is told that is not published: `sequence` never goes beyond the ledger.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import orjson

from mappings.document import split_id
from service.query import within
from service.reso.entities import OF_RESOURCE
from service.reso.faults import EventsForgotten
from service.reso.links import entity_url, root_of
from service.reso.places import Place, count, read_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mappings.resource import Resource
    from service.operation import Call
    from service.query import Clause
    from service.reso.sequence import Ledger
    from service.reso.token import Position, Walk

NAME = "EntityEvent"
NUMBER, RESOURCE, KEY, URL = "EntityEventSequence", "ResourceName", "ResourceRecordKey", "ResourceRecordUrl"


class Event(NamedTuple):
    """A change: its number, and whose record it is about."""

    number: int
    resource: Resource
    key: str


@dataclass(frozen=True)
class Events:
    """The events that a request asks for.

    `clauses` are those of the filter by resource; `bound` is the number behind which the filter begins, 0 for the
    beginning; `names` are the properties to answer.
    """

    call: Call
    ledger: Ledger
    clauses: Mapping[Resource, Clause]
    bound: int
    is_descending: bool
    names: tuple[str, ...]
    name = NAME
    kinds = (int,)

    async def begun(self, walk: Walk) -> Walk:
        """Return a walk that begins: one from the beginning never needs what was deleted by now."""
        return walk if self.bound else msgspec.structs.replace(walk, floor=self.ledger.end)

    async def rows(self, walk: Walk, size: int) -> list[Event]:
        """Return the first events behind the position of a walk; raise EventsForgotten."""
        found = await self._read(walk.position, size)
        await self._refuse_forgotten(walk)
        return found

    async def skipped(self, number: int) -> Position | None:
        """Return the position behind so many events, None where there are not as many."""
        found = await self._read((), number)
        return self.position(found[-1]) if len(found) == number else None

    async def count(self) -> int:
        """Return how many events there are in all."""
        return sum(await asyncio.gather(*map(self._total, self.clauses)))

    def position(self, row: Event) -> Position:
        """Return the place of an event."""
        return (row.number,)

    def encoded(self, rows: Sequence[Event]) -> list[bytes]:
        """Return events as JSON objects."""
        return [self._object(event) for event in rows]

    def _object(self, event: Event) -> bytes:
        entity = OF_RESOURCE[event.resource].name
        url = entity_url(root_of(self.call), entity, event.key)
        values = {NUMBER: event.number, RESOURCE: entity, KEY: event.key, URL: url}
        return orjson.dumps({name: values[name] for name in self.names})

    async def _read(self, position: Position, size: int) -> list[Event]:
        parts = await asyncio.gather(*(self._of(resource, position, size) for resource in self.clauses))
        found = sorted((event for part in parts for event in part), key=self.position, reverse=self.is_descending)
        return found[:size]

    async def _of(self, resource: Resource, position: Position, size: int) -> list[Event]:
        alias = resource.alias
        low, high = 0, self.ledger.upto(alias)
        if position and self.is_descending:
            high = self.ledger.place(alias, int(position[0]) - 1)
        elif position:
            low = self.ledger.place(alias, int(position[0]))
        if low >= high:
            return []
        order = {"sort": [{"sequence": "desc" if self.is_descending else "asc"}]}
        body = {"size": size, "track_total_hits": False, "query": self._query(resource, low, high), **order}
        places = await read_places(self.call, resource, body, Place)
        found = ((self.ledger.number(alias, at), name) for name, at in places)
        return [Event(number, resource, split_id(name)[1]) for number, name in found if number is not None]

    async def _total(self, resource: Resource) -> int:
        if not (upto := self.ledger.upto(resource.alias)):
            return 0
        return await count(self.call, resource, self._query(resource, 0, upto))

    def _query(self, resource: Resource, low: int, high: int) -> Clause:
        told: Clause = {"range": {"sequence": {"gt": low, "lte": high}}}
        return {"bool": {"filter": [*within(self.call.scope), told, self.clauses[resource]]}}

    async def _refuse_forgotten(self, walk: Walk) -> None:
        """Raise EventsForgotten where deletions behind the place that the reader goes on from are not kept any more.

        It is looked at after the search: marks tell it before the first of them is deleted.
        """
        reached = 0 if self.is_descending or not walk.position else int(walk.position[0])
        if not (place := max(self.bound, reached)):
            return
        services = self.call.services
        marks = {resource: services.marks[resource] for resource in self.clauses}
        await asyncio.gather(services.events.renew(), *(mark.renew() for mark in marks.values()))
        ledger = services.events.current or self.ledger
        horizon = ledger.horizon({resource.alias: mark.current for resource, mark in marks.items()})
        if max(place, walk.floor) < horizon:
            raise EventsForgotten(horizon, ledger.end)
