"""Records of a source held in memory, made so that each test names only what it is about."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from indexer.reso.composing import Composed, Composer
from mappings.dictionary import Dictionary, read_dictionary
from tests.indexer.lines import accept
from tests.records import envelope

if TYPE_CHECKING:
    from mappings import Resource

CHANGED = "2026-11-20T10:00:00.123Z"
DICTIONARY = read_dictionary()
KEYS = {name: entity.key for name, entity in DICTIONARY.entities.items()}
# What a record must say to be served at all.
_LEAST = {"Property": {"StandardStatus": "Active"}}


class Held:
    """Some records by entity and key, and what is part of which."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.records: dict[tuple[str, str], dict[str, Any]] = {}
        self._parts: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)

    def put(self, entity: str, key: str, **fields: Any) -> Held:
        """Hold a record."""
        least: dict[str, Any] = {KEYS[entity]: key, "ModificationTimestamp": CHANGED}
        self.records[entity, key] = least | _LEAST.get(entity, {}) | fields
        return self

    def part(self, entity: str, of: str, key: str, **fields: Any) -> Held:
        """Hold a part of the record `key`, under a key that follows those of the parts before it."""
        parts = self._parts[entity, of, key]
        parts.append({KEYS[entity]: f"part-{len(parts)}", "ModificationTimestamp": CHANGED} | fields)
        return self

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return a record."""
        return self.records.get((entity, key))

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return the parts of a record in the order in which they came: what is made of them has its own."""
        return self._parts[entity, of, key]


def composed(
    resource: Resource,
    held: Held,
    key: str = "k",
    prefix: str = "",
    time_zone: str | None = None,
    dictionary: Dictionary = DICTIONARY,
) -> Composed:
    """Return what is composed for a key, which the indexer accepts."""
    made = Composer(dictionary, held, prefix, time_zone).compose(resource.alias, key)
    assert made is not None
    accept(resource, enveloped(resource, made))
    return made


def enveloped(resource: Resource, made: Composed) -> dict[str, Any]:
    """Return the envelope of a composed record."""
    return {**envelope(resource), **made.envelope, "record": made.record}
