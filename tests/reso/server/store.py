"""What the server knows, and the only way to change it: thread-safe methods, never HTTP."""

import datetime as dt
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tests.reso.server.query import CollectionQuery, Row, ServerPage, read_page
from tests.reso.server.schema import (
    BOOLEAN,
    ENTITY_TYPES,
    EVENTS,
    INT64,
    MODIFICATION_FIELD,
    EntityType,
    Record,
    schema,
)
from tests.reso.server.server_settings import Dialect, ServerFault, ServerSettings

Parent = tuple[str, Any]  # a resource and a key

_PHOTOS_FIELD = "PhotosChangeTimestamp"
_START = dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC)
# Numbers do not ascend with time, like those of merged systems; a prime keeps them distinct.
_FIRST_NUMBER, _STEP, _MODULUS = 1_000_003, 7_368_787, 2_147_483_647


class ServerClock:
    """What the server takes for the time of its writes.

    It moves with writes and where a test moves it, never by itself: many writes may share a moment.
    """

    def __init__(self, settings: ServerSettings, chance: Random) -> None:
        self._settings, self._chance = settings, chance
        self._ms = self._writes = 0

    @property
    def now(self) -> str:
        """The moment that the next write gets, drift aside."""
        return self._text(self._ms)

    def _text(self, ms: int) -> str:
        at = _START + dt.timedelta(milliseconds=ms)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def stamp(self) -> str:
        stamped = self._text(self._ms - self._chance.randint(0, self._settings.drift_ms))
        self._writes += 1
        if self._writes % self._settings.tick_every == 0:
            self.advance(self._settings.tick_ms)
        return stamped

    def advance(self, ms: int) -> None:
        self._ms += ms


class EventLog:
    """One event for each write, visible at once or later, with a number, a resource and a key, and no more."""

    def __init__(self, settings: ServerSettings, chance: Random, lock: threading.RLock) -> None:
        """Begin with sequence 0, which no event has; `lock` guards what is visible."""
        self._settings, self._chance, self._lock = settings, chance, lock
        self._late: list[tuple[int, Record]] = []  # with the requests that are still to go by
        self._is_held = False
        self.visible: dict[Any, Row] = {}
        self.sequence = 0
        self.is_silent = False  # changes are made without events

    def append(self, resource: str, key: str) -> None:
        """Write the event of one change; its number is taken now, whenever it becomes visible."""
        if self.is_silent:
            return
        self.sequence += 1 + self._chance.randint(0, self._settings.event_gap)
        event = {"EntityEventSequence": self.sequence, "ResourceName": resource, "ResourceRecordKey": key}
        if self._is_held or self._chance.random() < self._settings.late_share:
            self._late.append((self._settings.late_requests, event))
        else:
            self._show([event])

    def _show(self, events: list[Record]) -> None:
        self._late = [late for late in self._late if late[1] not in events]
        self.visible |= {event["EntityEventSequence"]: Row(len(self.visible) + at, event)
                         for at, event in enumerate(events)}  # fmt: skip

    def request(self) -> None:
        """Count a request: late events become visible once enough of them went by."""
        with self._lock:
            if self._late and not self._is_held:
                self._late = [(left - 1, event) for left, event in self._late]
                self._show([event for left, event in self._late if left <= 0])

    def hold(self, *, is_held: bool = True) -> None:
        """Make every further event late, or none; what is late stays so until the release."""
        with self._lock:
            self._is_held = is_held

    def release(self) -> None:
        with self._lock:
            self._is_held = False
            self._show([event for _, event in self._late])

    @property
    def late(self) -> list[int]:
        with self._lock:
            return [event["EntityEventSequence"] for _, event in self._late]

    def forget(self, resource: str) -> None:
        with self._lock:
            self.visible = {at: row for at, row in self.visible.items() if row.record["ResourceName"] != resource}

    def restart(self) -> None:
        """Lose all events, and number those to come from the beginning."""
        with self._lock:
            self.visible, self.sequence = {}, 0

    def compact(self) -> None:
        with self._lock:
            last = {(row.record["ResourceName"], row.record["ResourceRecordKey"]): at
                    for at, row in sorted(self.visible.items())}  # fmt: skip
            self.visible = {at: self.visible[at] for at in last.values()}


class RecordForm:
    """What a dialect makes of a record when it is stored: its keys, its system, its deletion mark."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._numbers: dict[str, int] = {}

    def entity(self, entity: EntityType) -> EntityType:
        """Return an entity type with the fields and key types of the dialect."""
        is_number = self._dialect.keys == "number"
        fields = {name: INT64 if is_number and _is_key(name) else kind for name, kind in entity.fields.items()}
        if self._dialect.system:
            fields["OriginatingSystemName"] = "Edm.String"
        if self._dialect.deletion_mark:
            fields[self._dialect.deletion_mark] = BOOLEAN
        children = self._dialect.embedded.get(entity.name, ())
        return replace(entity, fields=fields | {name: f"Collection(org.reso.metadata.{name})" for name in children})

    def key(self, key: Any) -> Any:
        """Return a key as the dialect writes it, always the same; a key that has this form already stays."""
        if not isinstance(key, str) or self._dialect.keys == "text":
            return key
        if self._dialect.keys == "number":
            return self._numbers.setdefault(key, (_FIRST_NUMBER + len(self._numbers) * _STEP) % _MODULUS)
        prefix = self._dialect.prefix
        return key if key.startswith(prefix) else prefix + (re.sub("[^A-Za-z0-9]+", "", key) or key.encode().hex())

    def shaped(self, record: Mapping[str, Any]) -> Record:
        shaped = {name: self.key(value) if _is_key(name) else value for name, value in record.items()}
        if self._dialect.keys == "prefixed":
            shaped |= {name: self.key(value) for name, value in shaped.items() if name.endswith("MlsId")}
        if self._dialect.system:
            shaped["OriginatingSystemName"] = self._dialect.system
        if self._dialect.deletion_mark:
            shaped[self._dialect.deletion_mark] = True
        return shaped

    def is_deleted(self, record: Mapping[str, Any]) -> bool:
        return record.get(self._dialect.deletion_mark) is False


def _is_key(field: str) -> bool:
    """Return whether a field holds a key of this service, of its own record or of another."""
    return field.endswith("Key") and field != "SourceSystemKey"


class Store:
    """Tables, clock and events. Records that are handed in or out belong to the store: never change one in place."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.form = RecordForm(settings.dialect)
        self.entities = {
            name: self.form.entity(entity) if name != EVENTS else entity
            for name, entity in schema(settings.without).items()
        }
        chance = Random(f"store {settings.seed}")  # noqa: S311 - faults guard nothing
        self.clock = ServerClock(settings, chance)
        self.lock = threading.RLock()
        self.events = EventLog(settings, chance, self.lock)
        self._tables: dict[str, dict[Any, Row]] = {name: {} for name in ENTITY_TYPES}
        self._children: dict[tuple[str, Parent], dict[Any, None]] = {}
        self._rows = self._pages = 0

    def _table(self, resource: str) -> dict[Any, Row]:
        return self.events.visible if resource == EVENTS else self._tables[resource]

    def put(self, resource: str, record: Mapping[str, object], stamped: str | None = None) -> Record:
        """Insert or replace a record, stamp it with the clock, or with what is given, and write its event."""
        with self.lock:
            stored = self.form.shaped(record) | {MODIFICATION_FIELD: stamped or self.clock.stamp()}
            self._replace(resource, stored)
            return stored

    def _replace(self, resource: str, stored: Record) -> None:
        key, table = stored[ENTITY_TYPES[resource].key], self._tables[resource]
        before = table.get(key)
        self._rows += before is None
        table[key] = Row(self._rows if before is None else before.number, stored)
        self.events.append(resource, str(key))
        self._link(resource, key, None if before is None else before.record, stored)

    def _link(self, child: str, key: Any, before: Record | None, after: Record | None) -> None:
        """Note with which record a child is sent, and stamp it: readers learn of the child from its parent alone."""
        was, now = (None if record is None else self._parent(child, record) for record in (before, after))
        if was is not None and was != now:
            self._children[child, was].pop(key, None)
        if now is not None:
            self._children.setdefault((child, now), {})[key] = None
        for resource, of in sorted({parent for parent in (was, now) if parent is not None}, key=str):
            if (record := self.get(resource, of)) is not None:
                stamped = {MODIFICATION_FIELD: self.clock.stamp()}
                photos = {_PHOTOS_FIELD: stamped[MODIFICATION_FIELD]} if _PHOTOS_FIELD in record else {}
                self._replace(resource, record | photos | stamped)

    def _parent(self, child: str, record: Record) -> Parent | None:
        """Return the record that a child is sent with, None if it is not sent with one."""
        if child == "Media":
            found = record.get("ResourceName"), record.get("ResourceRecordKey")
        else:
            found = "Property", record.get("ListingKey")
        is_sent = isinstance(found[0], str) and child in self.settings.dialect.children_of(found[0])
        return (str(found[0]), found[1]) if is_sent else None

    def patch(self, resource: str, key: Any, **changes: object) -> Record:
        """Change some fields of a record; raise KeyError when it is gone."""
        with self.lock:
            return self.put(resource, self._tables[resource][self.form.key(key)].record | changes)

    def restamp(self, resource: str, key: Any, stamped: str) -> None:
        table = self._tables[resource]
        table[key] = table[key]._replace(record=table[key].record | {MODIFICATION_FIELD: stamped})

    def delete(self, resource: str, key: Any) -> bool:
        """Delete a record; return whether it was there."""
        with self.lock:
            key = self.form.key(key)
            if (record := self.get(resource, key)) is None:
                return False
            if (mark := self.settings.dialect.deletion_mark) and self.is_addressable(resource):
                self._replace(resource, record | {mark: False, MODIFICATION_FIELD: self.clock.stamp()})
            else:
                del self._tables[resource][key]
                self.events.append(resource, str(key))
                self._link(resource, key, record, None)
            return True

    def purge(self) -> None:
        """Remove the records that are marked as deleted, as a service does after some days."""
        with self.lock:
            for name, table in self._tables.items():
                kept = {key: row for key, row in table.items() if not self.form.is_deleted(row.record)}
                self._tables[name] = kept

    def is_addressable(self, resource: str) -> bool:
        return resource in self.entities and resource not in self.settings.dialect.not_addressable

    def touch(self, resource: str, keys: Iterable[Any] | None = None) -> None:
        """Stamp all records of a resource, or some, with one moment, as bulk updates do."""
        with self.lock:
            stamped = self.clock.stamp()
            for key in self.keys(resource) if keys is None else keys:
                self.put(resource, self._tables[resource][key].record, stamped)

    def get(self, resource: str, key: object) -> Record | None:
        with self.lock:
            row = self._table(resource).get(self.form.key(key))
            return row.record if row and not self.form.is_deleted(row.record) else None

    def keys(self, resource: str) -> list[Any]:
        """Return the keys of a resource in their order; of events the visible sequences."""
        return sorted(self.records(resource))

    def records(self, resource: str) -> dict[str, Record]:
        """Return all records of a resource by their keys, as of one moment."""
        with self.lock:
            rows = self._table(resource)
            return {key: row.record for key, row in rows.items() if not self.form.is_deleted(row.record)}

    def children_of(self, resource: str, key: Any, child: str) -> list[Record]:
        """Return the children that are sent with a record, in the order of their arrival."""
        with self.lock:
            found = (self.get(child, key) for key in self._children.get((child, (resource, key)), ()))
            return [record for record in found if record is not None]

    def page(self, query: CollectionQuery, fault: ServerFault | None) -> ServerPage:
        with self.lock:
            self._pages += 1
            rows = self._table(query.entity.name).values()
            return read_page(rows, query, self.settings, self._pages, fault)
