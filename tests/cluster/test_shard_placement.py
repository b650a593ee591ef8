"""What is said of shards, from rows as `_cat/shards` sends them."""

from typing import Any

import pytest

from cluster.index_state import (
    ShardCopy,
    exposed_shards,
    large_shards,
    missing_copies,
    missing_shards,
    read_copies,
    zones_of,
)

ZONES = {"node-0": "a", "node-1": "a", "node-2": "b"}


def row(shard: int, prirep: str, node: str | None, store: str | None = "1000", **changes: str) -> dict[str, Any]:
    state = "STARTED" if node else "UNASSIGNED"
    row = {"index": "listings-v0001", "shard": str(shard), "prirep": prirep, "state": state, "node": node}
    return {**row, "store": store, "unassigned.reason": None if node else "NODE_LEFT", **changes}


def copies(*rows: dict[str, Any]) -> list[ShardCopy]:
    return read_copies(rows)


SOUND = [row(0, "p", "node-0"), row(0, "r", "node-2"), row(1, "p", "node-2"), row(1, "r", "node-1")]


def test_nothing_is_said_of_sound_shards() -> None:
    found = copies(*SOUND)
    said = [missing_shards(found), missing_copies(found), exposed_shards(found, ZONES), large_shards(found, 30)]
    assert [[*problems] for problems in said] == [[]] * 4


def test_a_shard_on_no_node_is_named_and_a_missing_replica_apart_from_it() -> None:
    found = copies(row(0, "p", None), row(0, "r", None), row(1, "p", "node-0"), row(1, "r", None))
    assert [*missing_shards(found)] == [
        "listings-v0001: no node has shard 0 of 2 (NODE_LEFT). Requests that need it get 503."
    ]
    assert [*missing_copies(found)] == ["listings-v0001: shard 1 of 2 lacks a replica (NODE_LEFT)."]


def test_many_shards_are_counted() -> None:
    found = copies(*(row(number, "p", None) for number in range(8)))
    assert [*missing_shards(found)] == [
        "listings-v0001: no node has shards 0, 1, 2, 3, 4 and 3 more of 8 (NODE_LEFT). Requests that need them get 503."
    ]


def test_a_shard_that_moves_is_where_it_was() -> None:
    (copy,) = copies(row(0, "p", "node-0 -> 10.0.0.7 x7 node-2", state="RELOCATING"))
    assert (copy.node, copy.is_started) == ("node-0", True)


def test_copies_in_one_zone_are_named_if_there_are_others() -> None:
    found = copies(row(0, "p", "node-0"), row(0, "r", "node-1"), *SOUND[2:])
    assert [*exposed_shards(found, ZONES)] == ["listings-v0001: all copies of shard 0 of 2 are in one zone."]
    assert [*exposed_shards(found, dict.fromkeys(ZONES, "a"))] == []
    assert [*exposed_shards(found, {})] == []
    # A shard without a replica has one copy, which is a problem of its own.
    assert [*exposed_shards(copies(row(0, "p", "node-0")), ZONES)] == []


def test_shards_are_too_large_from_one_and_a_half_times_the_setting_on() -> None:
    found = copies(row(0, "p", "node-0", "44000000000"), row(1, "p", "node-0", "46000000000"))
    assert [*large_shards(found, 30)] == ["listings-v0001: shard 1 of 2 has up to 46 GB."]


@pytest.mark.parametrize(
    ("attributes", "settings", "zones"),
    [
        ({"zone": "a"}, {}, {"node": "a"}),
        ({"rack_id": "r1"}, {}, {"node": "r1"}),
        ({"ml.max_jvm_size": "1"}, {}, {}),
        ({"zone": "a", "hall": "h"}, {"defaults": {}, "persistent": {"hall": "x"}}, {"node": "a"}),
        (
            {"zone": "a", "hall": "h"},
            {"persistent": {"cluster.routing.allocation.awareness.attributes": "hall,zone"}},
            {"node": "h"},
        ),
        (
            {"zone": "a", "hall": "h"},
            {"defaults": {"cluster.routing.allocation.awareness.attributes": ["hall"]}},
            {"node": "h"},
        ),
    ],
)
def test_the_zone_of_a_node_is_what_allocation_is_aware_of(
    attributes: dict[str, str], settings: dict[str, Any], zones: dict[str, str]
) -> None:
    assert zones_of([{"name": "node", "attributes": attributes}], settings) == zones
