"""Records of a source held in memory, made so that each test names only what it is about."""

from collections import defaultdict
from typing import Any, Self

from indexer.reso.mapping.record_mapper import MappedRecord, RecordMapper
from mappings import Resource
from mappings.data_dictionary import DataDictionary, load_dictionary
from tests.indexer.parsed_lines import parse_line
from tests.records import envelope

CHANGED = "2026-11-20T10:00:00.123Z"
DICTIONARY = load_dictionary()
KEYS = {name: entity.key for name, entity in DICTIONARY.entities.items()}
# What a record must say to be served at all.
_LEAST = {"Property": {"StandardStatus": "Active"}}


class InMemoryRecords:
    """Some records by entity and key, and what is part of which."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], dict[str, Any]] = {}
        self._parts: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)

    def put(self, entity: str, key: str, **fields: Any) -> Self:
        least: dict[str, Any] = {KEYS[entity]: key, "ModificationTimestamp": CHANGED}
        self.records[entity, key] = least | _LEAST.get(entity, {}) | fields
        return self

    def put_part(self, entity: str, of: str, key: str, **fields: Any) -> Self:
        """Hold a part of the record `key`, under a key that follows those of the parts before it."""
        parts = self._parts[entity, of, key]
        parts.append({KEYS[entity]: f"part-{len(parts)}", "ModificationTimestamp": CHANGED} | fields)
        return self

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        return self.records.get((entity, key))

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return the parts of a record in the order in which they came: what is made of them has its own."""
        return self._parts[entity, of, key]


def map_record(
    resource: Resource,
    held: InMemoryRecords,
    key: str = "k",
    prefix: str = "",
    time_zone: str | None = None,
    dictionary: DataDictionary = DICTIONARY,
) -> MappedRecord:
    """Return what is composed for a key, which the indexer accepts."""
    made = RecordMapper(dictionary, held, prefix, time_zone).map_record(resource.alias, key)
    assert made is not None
    parse_line(resource, envelope_of(resource, made))
    return made


def envelope_of(resource: Resource, made: MappedRecord) -> dict[str, Any]:
    return {**envelope(resource), **made.envelope, "record": made.record}
