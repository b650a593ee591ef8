"""One record of a source while it becomes one of ours: what belongs to it, and what had to be left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from indexer.reso.left_out import LeftOut
from indexer.reso.values import text
from mappings.spelling import bare

if TYPE_CHECKING:
    from collections.abc import Callable


class Records(Protocol):
    """The records of a source, by the entities and fields of the Data Dictionary."""

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return the record with this key, None if there is none."""

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of the record `key` of the entity `of`, sorted by their keys."""


class Reading:
    """A record, the records beside it, and the reasons why values were left out."""

    __slots__ = ("_others", "_records", "entity", "key", "left_out", "record")

    def __init__(self, records: Records, entity: str, key: str, record: dict[str, Any]) -> None:
        """Nothing is left out yet."""
        self._records = records
        self._others: dict[tuple[str, str], dict[str, Any]] = {}
        self.entity = entity
        self.key = key
        self.record = record
        self.left_out: list[tuple[str, str]] = []

    def take(self, field: str, read: Callable[[Any], Any], value: object) -> Any:
        """Return a value as it is read, or what can be had of it; what cannot is noted under the field's name."""
        try:
            return read(value)
        except LeftOut as left:
            self.left_out.append((field, left.reason))
            return left.kept

    def spelt(self, field: str, value: object) -> str | None:
        """Return a text as `bare` leaves it, empty where there is none; None, and noted, where it cannot be read."""
        try:
            return bare(text(value) or "")
        except LeftOut as left:
            self.left_out.append((field, left.reason))
            return None

    def other(self, entity: str, key: str) -> dict[str, Any]:
        """Return another record, an empty one where there is none."""
        if (entity, key) not in self._others:
            self._others[entity, key] = self._records.record(entity, key) or {}
        return self._others[entity, key]

    def parts(self, entity: str) -> list[dict[str, Any]]:
        """Return what is part of the record, sorted by key."""
        return self._records.parts(entity, self.entity, self.key)

    def of(self, entity: str, key: str, record: dict[str, Any]) -> Reading:
        """Return a reading of another record that notes what it leaves out here."""
        reading = Reading(self._records, entity, key, record)
        reading.left_out = self.left_out
        return reading
