"""What the server knows, and the only way to change it: thread-safe methods, never HTTP."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING

from tests.reso.query.paging import Pager
from tests.reso.server.event_log import EventLog
from tests.reso.server.schema import ENTITY_TYPES, EVENTS, MODIFICATION_FIELD, schema
from tests.reso.server.server_clock import ServerClock
from tests.reso.server.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.reso.query.paging import ServerPage
    from tests.reso.query.query_options import CollectionQuery
    from tests.reso.server.schema import EntityType, Record
    from tests.reso.server.server_settings import ServerFault, ServerSettings

# Of a Property; on deletion these go first.
_CHILDREN = {"Media": "ResourceRecordKey", "OpenHouse": "ListingKey"}


class Store:
    """Tables, clock and events. Records that are handed in or out belong to the store: never change one in place."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin empty."""
        self.settings = settings
        self.entities: dict[str, EntityType] = schema(settings.without)
        self._chance = Random(f"store {settings.seed}")  # noqa: S311 - faults guard nothing
        self.clock = ServerClock(settings, self._chance)
        moving = settings.updates_move_rows
        self._tables = {name: Table(entity, updates_move_rows=moving) for name, entity in ENTITY_TYPES.items()}
        self.lock = threading.RLock()
        self.events = EventLog(self._tables[EVENTS], settings, self._chance, self.lock)
        self._epoch = self._pages = 0

    def put(self, resource: str, record: Mapping[str, object], stamped: str | None = None) -> Record:
        """Insert or replace a record, stamp it with the clock, or with what is given, and write its event."""
        with self.lock:
            stored: Record = dict(record) | {MODIFICATION_FIELD: stamped or self.clock.stamp()}
            self._tables[resource].put(stored)
            self.events.append(resource, stored[self._tables[resource].entity.key])
            return stored

    def patch(self, resource: str, key: str, **changes: object) -> Record:
        """Change some fields of a record; raise KeyError when it is gone."""
        with self.lock:
            return self.put(resource, self._tables[resource].rows[key].record | changes)

    def delete(self, resource: str, key: str) -> bool:
        """Delete a record, with its children if the settings say so; return whether it was there."""
        with self.lock:
            if resource == "Property" and self.settings.cascades:
                self._delete_children(key)
            was_there = self._tables[resource].remove(key)
            if was_there:
                self.events.append(resource, key)
            return was_there

    def _delete_children(self, key: str) -> None:
        for child, parent in _CHILDREN.items():
            rows = self._tables[child].rows
            for orphan in [orphan for orphan, row in rows.items() if row.record.get(parent) == key]:
                self.delete(child, orphan)

    def touch(self, resource: str, keys: Iterable[str] | None = None) -> None:
        """Stamp all records of a resource, or some, with one moment, as bulk updates do."""
        with self.lock:
            stamped, rows = self.clock.stamp(), self._tables[resource].rows
            for key in list(rows) if keys is None else keys:
                self.put(resource, rows[key].record, stamped)

    def get(self, resource: str, key: object) -> Record | None:
        """Return a record, or None when it is gone."""
        with self.lock:
            row = self._tables[resource].rows.get(key)
            return row.record if row else None

    def keys(self, resource: str) -> list[str]:
        """Return the keys of a resource in their order; of events the visible sequences."""
        with self.lock:
            return list(self._tables[resource].keys)

    def records(self, resource: str) -> dict[str, Record]:
        """Return all records of a resource by their keys, as of one moment."""
        with self.lock:
            return {key: row.record for key, row in self._tables[resource].rows.items()}

    def compact(self) -> None:
        """Keep the last visible event of each record."""
        with self.lock:
            self.events.compact()

    def expire_links(self) -> None:
        """Let no opaque next link hold that was given so far."""
        with self.lock:
            self._epoch += 1

    def is_expired(self, query: CollectionQuery) -> bool:
        """Return whether a query continues from an expired link."""
        return query.token is not None and query.token.epoch != self._epoch

    def page(self, resource: str, query: CollectionQuery, fault: ServerFault | None) -> ServerPage:
        """Return a page as of one moment."""
        with self.lock:
            self._pages += 1
            pager = Pager(self._tables[resource], self.settings, self._epoch, salt=self._pages)
            return pager.page(query, fault)
