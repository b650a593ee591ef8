"""EntityEvent: every change of a record that the key may read, deletions included, ordered by event number.

Each document has one event, that of its last change, as in the change feed. Deletions have one too, and so have moves
to a company that the key may not read. Only published changes are returned: `sequence` never exceeds the ledger.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import orjson

from mappings.resource import Resource
from mappings.stored_document import split_document_id
from service.request_context import RequestContext
from service.reso.entity_events.event_ledger import EventLedger, Events
from service.reso.entity_sets.declarations import ENTITY_SET_BY_RESOURCE
from service.reso.entity_sets.doc_values import DocumentPosition, count_documents, read_doc_values
from service.reso.entity_sets.sort_fields import SortKind
from service.reso.paging.skip_token import Position, SkipToken
from service.reso.protocol.links import entity_url, service_root_url
from service.reso.protocol.odata_errors import EventsForgotten
from service.search.query import Clause, scope_clauses

EVENT_ENTITY_SET = "EntityEvent"
SEQUENCE_PROPERTY, RESOURCE_PROPERTY, KEY_PROPERTY, URL_PROPERTY = (
    "EntityEventSequence",
    "ResourceName",
    "ResourceRecordKey",
    "ResourceRecordUrl",
)


class EntityEvent(NamedTuple):
    """A change: its event number, and the key of the record."""

    number: int
    resource: Resource
    key: str


@dataclass(frozen=True)
class EventPageSource:
    """The events that a request selects.

    `clauses` are the filter's clauses by resource; `lower_bound` is the number after which the filter starts, 0 for the
    first event; `names` are the selected properties.
    """

    call: RequestContext
    ledger: EventLedger
    clauses: Mapping[Resource, Clause]
    lower_bound: int
    is_descending: bool
    names: tuple[str, ...]
    name = EVENT_ENTITY_SET
    position_kinds = (SortKind.LONG,)

    async def start(self, cursor: SkipToken) -> SkipToken:
        """Start a cursor: a reader without a lower bound never needs deletions from before it started."""
        return cursor if self.lower_bound else msgspec.structs.replace(cursor, floor_event=self.ledger.end)

    async def rows(self, cursor: SkipToken, size: int) -> list[EntityEvent]:
        """Return the next events after the position of a cursor; raise EventsForgotten."""
        events = await self._read(cursor.position, size)
        await self._refuse_expired(cursor)
        return events

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` events, None if there are fewer."""
        events = await self._read((), number)
        return self.position(events[-1]) if len(events) == number else None

    async def count(self) -> int:
        """Return the total number of events."""
        return sum(await asyncio.gather(*map(self._count_resource, self.clauses)))

    def position(self, row: EntityEvent) -> Position:
        """Return the position of an event."""
        return (row.number,)

    def encode_rows(self, rows: Sequence[EntityEvent]) -> bytes:
        """Return events as a JSON array."""
        for resource in {event.resource for event in rows}:
            keys = [event.key for event in rows if event.resource is resource]
            self.call.sent.events(resource, keys, self.ledger.published_sequence(resource.alias))
        return b"[%b]" % b",".join(map(self._encode_event, rows))

    def _encode_event(self, event: EntityEvent) -> bytes:
        entity = ENTITY_SET_BY_RESOURCE[event.resource].name
        url = entity_url(service_root_url(self.call), entity, event.key)
        values = {
            SEQUENCE_PROPERTY: event.number,
            RESOURCE_PROPERTY: entity,
            KEY_PROPERTY: event.key,
            URL_PROPERTY: url,
        }
        return orjson.dumps({name: values[name] for name in self.names})

    async def _read(self, position: Position, size: int) -> list[EntityEvent]:
        parts = await asyncio.gather(*(self._read_resource(resource, position, size) for resource in self.clauses))
        events = sorted((event for part in parts for event in part), key=self.position, reverse=self.is_descending)
        return events[:size]

    async def _read_resource(self, resource: Resource, position: Position, size: int) -> list[EntityEvent]:
        alias = resource.alias
        low, high = 0, self.ledger.published_sequence(alias)
        if position and self.is_descending:
            high = self.ledger.sequence_at(alias, int(position[0] or 0) - 1)
        elif position:
            low = self.ledger.sequence_at(alias, int(position[0] or 0))
        if low >= high:
            return []
        order = {"sort": [{"sequence": "desc" if self.is_descending else "asc"}]}
        body = {"size": size, "track_total_hits": False, "query": self._query(resource, low, high), **order}
        upto = self.ledger.published_sequence(alias)
        documents = await read_doc_values(self.call, resource, body, DocumentPosition, upto)
        numbered = ((self.ledger.event_number(alias, sequence), name) for name, sequence in documents)
        return [
            EntityEvent(number, resource, split_document_id(name)[1]) for number, name in numbered if number is not None
        ]

    async def _count_resource(self, resource: Resource) -> int:
        if not (upto := self.ledger.published_sequence(resource.alias)):
            return 0
        return await count_documents(self.call, resource, self._query(resource, 0, upto), upto)

    def _query(self, resource: Resource, low: int, high: int) -> Clause:
        published: Clause = {"range": {"sequence": {"gt": low, "lte": high}}}
        return {"bool": {"filter": [*scope_clauses(self.call.scope), published, self.clauses[resource]]}}

    async def _refuse_expired(self, cursor: SkipToken) -> None:
        """Raise EventsForgotten if deletions after the reader's position are no longer stored, or if no event has it.

        It is checked after the search: marks are updated before the first tombstone is pruned.
        """
        reached = 0 if self.is_descending or not cursor.position else int(cursor.position[0] or 0)
        if not (start := max(self.lower_bound, reached)):
            return
        services = self.call.services
        names = [resource.alias for resource in self.clauses]
        marks = await asyncio.gather(*(services.marks[resource].refreshed() for resource in self.clauses))
        ledger = await services.of(Events).refreshed()
        horizon = ledger.horizon(dict(zip(names, marks, strict=True)))
        if max(start, cursor.floor_event) < horizon or start > ledger.end:
            raise EventsForgotten(start, horizon, ledger.end)
