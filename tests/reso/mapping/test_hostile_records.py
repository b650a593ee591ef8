"""Records with anything in any field: the indexer accepts the mapped records, and only selected fields are read."""

import math
from random import Random
from typing import Any

import orjson
from hypothesis import event, given, settings
from hypothesis import strategies as st

from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import InvalidRecordError
from indexer.reso.mapping.record_mapper import RecordMapper
from indexer.settings import IndexerSettings
from indexer.source.lines import SourceLine
from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from tests.indexer.parsed_lines import COMPANIES
from tests.reso.mapping.record_source import CHANGED, DICTIONARY, InMemoryRecords, envelope_of
from tests.reso.world.invalid_values import KEYS, POOL, VALUES

SERVED = [LISTING, SOLD_LISTING, AGENT, OFFICE, TEAM]
# The outbox replaces times from the future.
ANY_TIME = IndexerSettings(future_seconds=math.inf)
INTAKES = {resource: LineParser(resource, COMPANIES, ANY_TIME) for resource in SERVED}
PARTS = ["Media", "OpenHouse", "TeamMembers"]
# Without these hardly a record would come further than its first field.
_OFTEN: dict[str, list[Any]] = {
    "StandardStatus": ["Active", "Closed", "Coming Soon"],
    "PropertyType": ["Residential", "Igloo"],
    "TeamKey": KEYS,
    "OfficeKey": KEYS,
    "MediaURL": ["https://m"],
    "MediaCategory": ["Photo", None],
    "Permission": [None, ["Public"]],
    "OpenHouseDate": ["2026-07-04"],
    "OpenHouseType": ["Public", None],
    "MemberStatus": ["Active", "Inactive"],
    "ModificationTimestamp": [CHANGED],
}


def fields(chance: Random, entity: str) -> dict[str, Any]:
    often = {name for name in _OFTEN if chance.random() < 0.8}
    return {
        name: chance.choice(_OFTEN[name] if name in often else POOL)
        for name in DICTIONARY.requested_fields(entity)
        if name in often or chance.random() < 0.7
    }


@st.composite
def sources(draw: st.DrawFn) -> tuple[InMemoryRecords, str, str]:
    """Return records, and entity and key of the one to compose; three fields of it are drawn one by one."""
    chance, held = Random(draw(st.integers(0, 2**32))), InMemoryRecords()  # noqa: S311 - to be repeated
    entity, key = draw(st.sampled_from(["Property", "Member", "Office", "Teams"])), draw(st.sampled_from(KEYS))
    for other in ("Office", "Teams"):
        held.put(other, chance.choice(KEYS), **fields(chance, other))
    names = draw(st.lists(st.sampled_from(DICTIONARY.requested_fields(entity)), max_size=3))
    own = fields(chance, entity) | {name: draw(VALUES) for name in names}
    held.put(entity, key, **own | ({} if chance.random() < 0.1 else {DICTIONARY.entities[entity].key: key}))
    for part in PARTS:
        for number in range(chance.randrange(4)):
            held.put_part(part, entity, key, **fields(chance, part) | {DICTIONARY.entities[part].key: f"part-{number}"})
    return held, entity, key


OPTIONS = st.tuples(st.sampled_from(["", "mls:", " /%\x00"]), st.sampled_from([None, "America/Los_Angeles"]))


@settings(max_examples=100)
@given(sources(), OPTIONS)
def test_whatever_is_composed_the_indexer_accepts(
    source: tuple[InMemoryRecords, str, str], options: tuple[str, str | None]
) -> None:
    held, entity, key = source
    composer = RecordMapper(DICTIONARY, held, *options)
    for resource in SERVED:
        if DICTIONARY.entity_for(resource.alias) == entity:
            event(f"{resource.alias}: {'composed' if _is_composed(composer, resource, key) else 'refused'}")


def _is_composed(composer: RecordMapper, resource: Resource, key: str) -> bool:
    """Whether a record is composed, which is then seen to be accepted."""
    try:
        made = composer.map_record(resource.alias, key)
    except InvalidRecordError as error:
        fault = error.field
        made = None
    else:
        fault = ""
    own = DICTIONARY.entities[DICTIONARY.entity_for(resource.alias)].key
    assert fault in {"", "StandardStatus", "ModificationTimestamp", own}
    if made is not None:
        INTAKES[resource].parse(SourceLine("file", 1, orjson.dumps(envelope_of(resource, made))), ParsedChunk())
        assert made.record[resource.identifier] == composer.identifier(resource.alias, key)
        assert len(orjson.dumps(made.omitted)) > 0
    return made is not None


class RecordingRecord(dict[str, Any]):
    """A record that remembers of which fields it was asked."""

    def __init__(self, entity: str, asked: set[tuple[str, str]], **values: Any) -> None:
        super().__init__(values)
        self._entity = entity
        self._asked = asked

    def get(self, name: str, default: Any = None) -> Any:
        self._asked.add((self._entity, name))
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._asked.add((self._entity, name))
        return super().__getitem__(name)


class RecordingSource:
    """A source in which there is one of everything."""

    def __init__(self, status: str) -> None:
        self.asked: set[tuple[str, str]] = set()
        self._values = {"StandardStatus": status, "MediaURL": "https://m", "OpenHouseDate": "2026-07-04"}
        self._values |= {"ModificationTimestamp": CHANGED, "MemberStatus": "Inactive", "OpenHouseStartTime": CHANGED}
        self._values |= {"PropertyType": "Land"}

    def record(self, entity: str, key: str) -> dict[str, Any]:
        keys = {name: "k" for name in DICTIONARY.requested_fields(entity) if name.endswith("Key")}
        return RecordingRecord(entity, self.asked, **self._values | keys | {DICTIONARY.entities[entity].key: key})

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        return [self.record(entity, f"{of}-{key}-{number}") for number in range(2)]


def test_exactly_the_fields_that_are_read_are_selected() -> None:
    read: set[tuple[str, str]] = set()
    for status in ("Active", "Closed"):
        source = RecordingSource(status)
        for resource in SERVED:
            RecordMapper(DICTIONARY, source).map_record(resource.alias, "k")
        read |= source.asked
    asked = {(entity, name) for entity in DICTIONARY.entities for name in DICTIONARY.requested_fields(entity)}
    assert read - asked == set()
    # These are for bookkeeping: what the records are, when they changed, what they belong to.
    kept_by = {
        (name, field)
        for name, entity in DICTIONARY.entities.items()
        for field in (entity.key, MODIFICATION_TIMESTAMP, *entity.part_of.keys(), *entity.part_of.values())
    }
    assert asked - read - kept_by == set()
