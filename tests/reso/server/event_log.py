"""The log of changes: one event for each write, with a sequence number, a resource and a key, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random
    from threading import RLock

    from tests.reso.server.schema import Record
    from tests.reso.server.server_settings import ServerSettings
    from tests.reso.server.table import Table


class EventLog:
    """Writes events into their table, at once or later, or never."""

    def __init__(self, table: Table, settings: ServerSettings, chance: Random, lock: RLock) -> None:
        """Begin with sequence 0, which no event has; `lock` guards the table."""
        self._lock = lock
        self._table, self._settings, self._chance = table, settings, chance
        self._late: list[tuple[int, Record]] = []  # with the requests that are still to go by
        self._held = False
        self.sequence = 0

    def append(self, resource: str, key: str) -> None:
        """Write the event of one change; its number is taken now, whenever it becomes visible."""
        self.sequence += 1 + self._chance.randint(0, self._settings.event_gap)
        event = {"EntityEventSequence": self.sequence, "ResourceName": resource, "ResourceRecordKey": key}
        if self._happens(self._settings.lost_share):
            return
        if self._held or self._happens(self._settings.late_share):
            self._late.append((self._settings.late_requests, event))
        else:
            self._table.put(event)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    def request(self) -> None:
        """Count a request: late events become visible once enough of them went by."""
        with self._lock:
            if not self._held:
                self._late = [(left - 1, event) for left, event in self._late]
                self._show([event for left, event in self._late if left <= 0])

    def hold(self) -> None:
        """Make every further event late, and let none become visible before the release."""
        with self._lock:
            self._held = True

    def release(self) -> None:
        """Show everything that is late."""
        with self._lock:
            self._held = False
            self._show([event for _, event in self._late])

    @property
    def late(self) -> list[int]:
        """The sequences that are not visible yet."""
        with self._lock:
            return [event["EntityEventSequence"] for _, event in self._late]

    def _show(self, events: list[Record]) -> None:
        shown = {event["EntityEventSequence"] for event in events}
        self._late = [(left, event) for left, event in self._late if event["EntityEventSequence"] not in shown]
        for event in events:
            self._table.put(event)

    def compact(self) -> None:
        """Of the visible events keep the last of each record."""
        last: dict[tuple[str, str], Any] = {}
        for sequence in self._table.keys:
            event = self._table.rows[sequence].record
            last[event["ResourceName"], event["ResourceRecordKey"]] = sequence
        for sequence in set(self._table.keys) - set(last.values()):
            self._table.remove(sequence)
