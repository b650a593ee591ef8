"""What the index must hold when a source is at rest: its records composed by themselves, without mirror and walks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import InvalidRecordError
from indexer.reso.mapping.record_mapper import RecordMapper
from indexer.reso.mirror import key_text
from indexer.source.lines import SourceLine
from mappings import AGENT, COMPANY, OFFICE, RESOURCES, Resource
from mappings.data_dictionary import DataDictionary, load_dictionary
from mappings.listing import TIME_ZONE
from tests.indexer.conftest import Bench
from tests.reso.server.store import Store

Records = dict[str, dict[str, Any]]

ACME = "acme"
# What is part of what, by the fields that say so: written down once more, so that the dictionary is tried too.
_PARTS: dict[str, Callable[[dict[str, Any]], tuple[Any, Any]]] = {
    "Media": lambda row: (row["ResourceName"], row["ResourceRecordKey"]),
    "OpenHouse": lambda row: ("Property", row["ListingKey"]),
    "TeamMembers": lambda row: ("Member", row["MemberKey"]),
}
_PAGE = 1000
# The time of records whose source has none, as the record has it.
_UNDATED, _UNDATED_SECONDS = "2026-01-01T00:00:00Z", 1_767_225_600


class Snapshot:
    """The current records of a store, each with only the fields that may be selected."""

    def __init__(self, store: Store, dictionary: DataDictionary) -> None:
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}
        self._parts: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
        for name, entity in dictionary.entities.items():
            asked, rows = (
                dictionary.requested_fields(name),
                [store.get(name, key) or {} for key in sorted(store.keys(name), key=key_text)],
            )
            kept = [{field: row[field] for field in asked if row.get(field) is not None} for row in rows]
            self.rows[name] = {key_text(row[entity.key]): row for row in kept}
            for row, whole in zip(kept, rows, strict=True) if name in _PARTS else ():
                parent, key = _PARTS[name](whole)
                self._parts[name, parent, key_text(key)].append(row)

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        return self.rows[entity].get(key)

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        return self._parts[entity, of, key]


Names = dict[tuple[str, str], str]  # by resource and identifier


def expected_records(store: Store, names: Names) -> dict[Resource, dict[str, Any]]:
    """Return the records that are to be served, by identifier, as the indexer completes them.

    None is a record that cannot be served in its current form: it stays as it was, if it was there. `names` are those
    of the agents and offices that are live.
    """
    dictionary = load_dictionary()
    snapshot = Snapshot(store, dictionary)
    composer = RecordMapper(dictionary, snapshot)
    return {
        resource: dict(_accepted(resource, composer, snapshot.rows[dictionary.entity_for(resource.alias)], names))
        for resource in RESOURCES
        if resource is not COMPANY
    }


def _accepted(
    resource: Resource, composer: RecordMapper, keys: Iterable[str], names: Names
) -> Iterator[tuple[str, Any]]:
    parser = LineParser(resource, Companies({ACME}))
    for key in keys:
        identifier = composer.identifier(resource.alias, key)
        try:
            if (made := composer.map_record(resource.alias, key)) is not None:
                envelope = {"platform_company_id": ACME, "updated_at": _UNDATED, "record": made.record}
                data = orjson.dumps(envelope | made.envelope, option=orjson.OPT_SORT_KEYS)
                draft = parser.parse(SourceLine("expected", 1, data), ParsedChunk())
                # Offices of a source have no time zone.
                gaps = [gap for gap in draft.gaps if gap.member != TIME_ZONE]
                known = {gap.member: name for gap in gaps if (name := names.get((gap.target, gap.key)))}
                if known and draft.named is not None:
                    draft = draft.named(known)
                yield identifier, {"content": draft.content, "record": orjson.loads(draft.record or b"")}
        except InvalidRecordError:
            yield identifier, None


async def served_records(bench: Bench, resource: Resource) -> Records:
    found: Records = {}
    after: list[Any] | None = None
    while True:
        page = await bench.client.search(
            index=bench.connection.alias(resource),
            size=_PAGE,
            sort=["feed_key"],
            search_after=after,
            query={"term": {"deleted": False}},
            source_includes=["content", "record", "company"],
        )
        hits = page["hits"]["hits"]
        assert all(hit["_source"]["company"] == ACME for hit in hits)
        found |= {hit["_id"]: {name: hit["_source"][name] for name in ("content", "record")} for hit in hits}
        if len(hits) < _PAGE:
            return found
        after = hits[-1]["sort"]


def _is_served(expected: dict[str, Any], served: dict[str, Any]) -> bool:
    """Whether both are equal. Times of a record that has none at its source are those of its reading."""
    undated = {name for name, value in expected["record"].items() if value in (_UNDATED, _UNDATED_SECONDS)}
    times = {name: value for name, value in served["record"].items() if name in undated and value}
    return expected | {"record": expected["record"] | times} == served


async def _live_names(bench: Bench) -> Names:
    names: Names = {}
    for resource in (AGENT, OFFICE):
        for identifier, document in (await served_records(bench, resource)).items():
            record = document["record"]
            parts = [record.get("first_name"), record.get("last_name")]
            if name := record["name"] or (" ".join(parts) if all(parts) else None):
                names[resource.alias, identifier] = name
    return names


async def differences(bench: Bench, store: Store) -> dict[str, list[str]]:
    """Return the identifiers of what is missing, surplus or different, by resource and kind; empty if all is well."""
    found: dict[str, list[str]] = {}
    for resource, records in expected_records(store, await _live_names(bench)).items():
        there = await served_records(bench, resource)
        bad = {name for name, record in records.items() if record is None}
        kinds = {
            "missing": records.keys() - there.keys() - bad,
            "surplus": there.keys() - records.keys(),
            "different": {
                name for name in records.keys() & there.keys() - bad if not _is_served(records[name], there[name])
            },
        }
        found |= {f"{resource.alias} {kind}": sorted(names) for kind, names in kinds.items() if names}
    return found
