"""What the server knows, and the only way to change it: thread-safe methods, never HTTP."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

from tests.reso.query.paging import Pager
from tests.reso.server.child_records import ChildRecords
from tests.reso.server.event_log import EventLog
from tests.reso.server.record_form import RecordForm, shaped_entity
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
_PHOTOS_FIELD = "PhotosChangeTimestamp"


class Store:
    """Tables, clock and events. Records that are handed in or out belong to the store: never change one in place."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin empty."""
        self.settings = settings
        self.entities: dict[str, EntityType] = {
            name: shaped_entity(entity, settings.dialect) if name != EVENTS else entity
            for name, entity in schema(settings.without).items()
        }
        self.form, self.children = RecordForm(settings.dialect), ChildRecords(settings.dialect)
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
            stored = self.form.shaped(record) | {MODIFICATION_FIELD: stamped or self.clock.stamp()}
            self._replace(resource, stored)
            return stored

    def _replace(self, resource: str, stored: Record) -> None:
        key = stored[self._tables[resource].entity.key]
        before = self._tables[resource].rows.get(key)
        self._tables[resource].put(stored)
        self.events.append(resource, str(key))
        if before is not None:
            self.children.remove(resource, key, before.record)
        self.children.add(resource, key, stored)
        records = [stored] if before is None else [before.record, stored]
        self._touch_parents(resource, records)

    def _touch_parents(self, child: str, records: Iterable[Record]) -> None:
        """Stamp the records that these are sent with: readers learn of a changed child from its parent alone."""
        parents = {parent for record in records if (parent := self.children.parent(child, record)) is not None}
        for resource, key in sorted(parents, key=str):
            if (record := self.get(resource, key)) is not None:
                now = {MODIFICATION_FIELD: self.clock.stamp()}
                photos = {_PHOTOS_FIELD: now[MODIFICATION_FIELD]} if _PHOTOS_FIELD in record else {}
                self._replace(resource, record | photos | now)

    def patch(self, resource: str, key: Any, **changes: object) -> Record:
        """Change some fields of a record; raise KeyError when it is gone."""
        with self.lock:
            return self.put(resource, self._tables[resource].rows[self.form.key(key)].record | changes)

    def delete(self, resource: str, key: Any) -> bool:
        """Delete a record, with its children if the settings say so; return whether it was there."""
        with self.lock:
            key = self.form.key(key)
            if (record := self.get(resource, key)) is None:
                return False
            if resource == "Property" and self.settings.cascades:
                self._delete_children(key)
            if (mark := self.settings.dialect.deletion_mark) and self.is_addressable(resource):
                self._replace(resource, record | {mark: False, MODIFICATION_FIELD: self.clock.stamp()})
            else:
                self._remove(resource, key, record)
            return True

    def _remove(self, resource: str, key: Any, record: Record) -> None:
        self._tables[resource].remove(key)
        self.events.append(resource, str(key))
        self.children.remove(resource, key, record)
        self._touch_parents(resource, [record])

    def purge(self) -> None:
        """Remove the records that are marked as deleted, as a service does after some days."""
        with self.lock:
            for table in self._tables.values():
                for key in [key for key, row in table.rows.items() if self.form.is_deleted(row.record)]:
                    table.remove(key)

    def is_addressable(self, resource: str) -> bool:
        """Return whether a resource has a set of its own."""
        return resource in self.entities and resource not in self.settings.dialect.not_addressable

    def _delete_children(self, key: Any) -> None:
        for child, parent in _CHILDREN.items():
            rows = self._tables[child].rows
            for orphan in [orphan for orphan, row in rows.items() if row.record.get(parent) == key]:
                self.delete(child, orphan)

    def touch(self, resource: str, keys: Iterable[str] | None = None) -> None:
        """Stamp all records of a resource, or some, with one moment, as bulk updates do."""
        with self.lock:
            stamped, rows = self.clock.stamp(), self._tables[resource].rows
            for key in self.keys(resource) if keys is None else keys:
                self.put(resource, rows[key].record, stamped)

    def get(self, resource: str, key: object) -> Record | None:
        """Return a record, or None when it is gone."""
        with self.lock:
            row = self._tables[resource].rows.get(self.form.key(key))
            return row.record if row and not self.form.is_deleted(row.record) else None

    def keys(self, resource: str) -> list[Any]:
        """Return the keys of a resource in their order; of events the visible sequences."""
        with self.lock:
            table = self._tables[resource]
            return [key for key in table.keys if not self.form.is_deleted(table.rows[key].record)]

    def children_of(self, resource: str, key: Any, child: str) -> list[Record]:
        """Return the children that are sent with a record."""
        with self.lock:
            found = (self.get(child, each) for each in self.children.keys(child, resource, key))
            return [record for record in found if record is not None]

    def records(self, resource: str) -> dict[str, Record]:
        """Return all records of a resource by their keys, as of one moment."""
        with self.lock:
            rows = self._tables[resource].rows
            return {key: row.record for key, row in rows.items() if not self.form.is_deleted(row.record)}

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
