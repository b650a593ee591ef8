"""The context of mapping one record: its parts, related records, and the values left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from indexer.reso.mapping.converters import to_text
from indexer.reso.mapping.source_values import UnmappableValue
from mappings.values.normalization import normalize_lookup

RecordAndEnvelope = tuple[dict[str, object], dict[str, object]]


class SourceRecords(Protocol):
    """The records of a source, by entity and field names of the Data Dictionary."""

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return the record with a key, None if it is missing."""

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of the record `key` of the entity `of`, sorted by key."""


class MappingContext:
    """A record, access to its parts and related records, and the values left out with reasons."""

    __slots__ = ("_records", "_related", "entity", "key", "omitted", "record")

    def __init__(self, records: SourceRecords, entity: str, key: str, record: dict[str, Any]) -> None:
        """Start without omitted values."""
        self._records = records
        self._related: dict[tuple[str, str], dict[str, Any]] = {}
        self.entity = entity
        self.key = key
        self.record = record
        self.omitted: list[tuple[str, str]] = []

    def convert(self, field: str, converter: Callable[[Any], Any], value: object) -> Any:
        """Return the converted value, or the usable part of it; record what is left out under the field's name."""
        try:
            return converter(value)
        except UnmappableValue as error:
            self.omitted.append((field, error.reason))
            return error.partial

    def normalized_text(self, field: str, value: object) -> str | None:
        """Return a normalized text, empty if there is none; None, and recorded as omitted, if it is unmappable."""
        try:
            return normalize_lookup(to_text(value) or "")
        except UnmappableValue as error:
            self.omitted.append((field, error.reason))
            return None

    def related(self, entity: str, key: str) -> dict[str, Any]:
        """Return a related record, empty if it is missing."""
        if (entity, key) not in self._related:
            self._related[entity, key] = self._records.record(entity, key) or {}
        return self._related[entity, key]

    def parts(self, entity: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of this record, sorted by key."""
        return self._records.parts(entity, self.entity, self.key)

    def for_record(self, entity: str, key: str, record: dict[str, Any]) -> MappingContext:
        """Return a context for another record that shares this list of omitted values."""
        context = MappingContext(self._records, entity, key, record)
        context.omitted = self.omitted
        return context
