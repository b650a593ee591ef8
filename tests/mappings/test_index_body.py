"""Index bodies: strict, sorted by the feed key, compared with snapshots, and identified by a fingerprint."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mappings import LISTING, RESOURCES, Resource
from mappings.fields import View, integer, string
from mappings.indices import MAX_RESULT_WINDOW, index_body, schema_fingerprint
from mappings.search_fields import keyword

SNAPSHOTS = Path(__file__).parent / "snapshots"

_resources = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)


def mappings_of(resource: Resource) -> dict[str, Any]:
    body: dict[str, Any] = index_body(resource)
    mappings: dict[str, Any] = body["mappings"]
    return mappings


@_resources
def test_the_index_body_is_the_one_of_its_snapshot(resource: Resource, update_snapshots: bool) -> None:
    snapshot = SNAPSHOTS / f"{resource.alias}.json"
    if update_snapshots:
        snapshot.write_text(json.dumps(index_body(resource), indent=2) + "\n", encoding="utf-8")
    assert index_body(resource) == json.loads(snapshot.read_text(encoding="utf-8"))


def test_every_snapshot_belongs_to_a_resource() -> None:
    assert {path.stem for path in SNAPSHOTS.iterdir()} == {resource.alias for resource in RESOURCES}


@_resources
def test_the_mapping_is_strict_and_keeps_the_record_unparsed(resource: Resource) -> None:
    assert mappings_of(resource)["dynamic"] == "strict"
    assert mappings_of(resource)["properties"]["record"] == {"type": "object", "enabled": False}
    exact = mappings_of(resource)["properties"].get("exact")
    assert exact == ({"type": "object", "enabled": False} if resource.exact_names else None)


@_resources
def test_the_index_is_sorted_by_a_feed_key_that_is_not_indexed(resource: Resource) -> None:
    settings: Any = index_body(resource)["settings"]
    assert (settings["index.sort.field"], settings["index.sort.order"]) == ("feed_key", "asc")
    assert settings["index.mapping.use_doc_values_skipper"] is True
    assert mappings_of(resource)["properties"]["feed_key"] == {"type": "keyword", "index": False}


@_resources
def test_numbered_pages_reach_the_result_window(resource: Resource) -> None:
    settings: Any = index_body(resource)["settings"]
    assert settings["index.max_result_window"] == MAX_RESULT_WINDOW == 100_000


@_resources
def test_what_timestamps_only_answers_and_sorts_by_has_doc_values(resource: Resource) -> None:
    properties = mappings_of(resource)["properties"]
    read = {*resource.timestamps.values(), "clock", "id", "feed_key"} | ({"modified"} if resource.timestamps else set())
    assert [name for name in read if properties[name].get("doc_values") is False] == []


@_resources
def test_no_two_search_fields_share_a_name(resource: Resource) -> None:
    assert len({field.name for field in resource.indexed_fields} | {"exact", "record"}) == (
        len(resource.indexed_fields) + 2
    )


def test_fingerprints_of_resources_differ_and_are_in_the_mapping() -> None:
    fingerprints = {mappings_of(resource)["_meta"]["fingerprint"] for resource in RESOURCES}
    assert fingerprints == {schema_fingerprint(resource) for resource in RESOURCES}
    assert len(fingerprints) == len(RESOURCES)


CHANGES = {
    "a further field": replace(LISTING, fields=(*LISTING.fields, string("Further"))),
    "a field less": replace(LISTING, fields=LISTING.fields[1:]),
    "a field of another kind": replace(LISTING, fields=(string("LotSizeAcres"), *LISTING.fields[1:])),
    "fields in another order": replace(LISTING, fields=(LISTING.fields[1], LISTING.fields[0], *LISTING.fields[2:])),
    "a member less": replace(
        LISTING,
        fields=tuple(replace(field, members=field.members[1:]) for field in LISTING.fields),
    ),
    "a field moved to the show": replace(
        LISTING, fields=(LISTING.fields[0].only(frozenset({View.SHOW})), *LISTING.fields[1:])
    ),
    "a further filter": replace(LISTING, search_fields=(*LISTING.search_fields, keyword("city", "City"))),
    "a filter less": replace(LISTING, search_fields=LISTING.search_fields[1:]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_changes_with(change: str) -> None:
    assert schema_fingerprint(CHANGES[change]) != schema_fingerprint(LISTING)


SAME = {
    "a note": replace(LISTING, fields=(integer("LotSizeAcres", "Another note."), *LISTING.fields[1:])),
    "a flag": replace(LISTING, fields=(LISTING.fields[0].on_request("include_lot"), *LISTING.fields[1:])),
    "another name": replace(LISTING, name="Estate"),
    "other volatile members": replace(LISTING, volatile=LISTING.volatile - {"DaysOnMarket"}),
    "a copy": replace(LISTING),
}


@pytest.mark.parametrize("change", SAME)
def test_the_fingerprint_does_not_change_with(change: str) -> None:
    assert schema_fingerprint(SAME[change]) == schema_fingerprint(LISTING)
