"""The made-up world and its changes: the same by seed, complete, odd in places; canaries in private fields alone."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from tests.reso.changes import KINDS, Changes
from tests.reso.hostile import KEYS, ODDITIES
from tests.reso.people import CANARY
from tests.reso.schema import ENTITY_TYPES, EVENTS, PRIVATE, STAMP
from tests.reso.settings import Settings
from tests.reso.store import Store
from tests.reso.words import STATUSES
from tests.reso.world import World, make_world


def small(seed: int = 1, hostile: float = 0.1) -> World:
    """Return a world of a few hundred listings."""
    counts = {"properties": 600, "media": 1_200, "open_houses": 500, "members": 120, "offices": 40}
    return make_world(seed, **counts, teams=20, team_members=40, hostile=hostile)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def world() -> World:
    """One of the worlds."""
    return small()


def test_a_seed_makes_one_world(world: World) -> None:
    assert small() == world
    assert small(seed=2) != world


def test_records_have_the_fields_of_their_resource(world: World) -> None:
    for resource, records in world.records.items():
        entity = ENTITY_TYPES[resource]
        assert {frozenset(record) for record in records} == {frozenset(entity.fields)}
        assert len({record[entity.key] for record in records}) == len(records) > 0
    assert set(world.records) == set(ENTITY_TYPES) - {EVENTS}


def test_a_world_has_every_status_and_its_oddities(world: World) -> None:
    assert set(STATUSES) <= {record["StandardStatus"] for record in world.records["Property"]}
    assert set(KEYS) <= {record["ListingKey"] for record in world.records["Property"]}
    named = Counter((resource, name) for (resource, _), name in world.oddities.items())
    assert {resource for resource, _ in named} == set(ODDITIES)
    assert {name for resource, name in named if resource == "Property"} == set(ODDITIES["Property"])
    assert len(world.stamps) == 9


def test_without_hostility_nothing_is_odd_and_references_hold() -> None:
    world = small(hostile=0)
    members = {record["MemberKey"] for record in world.records["Member"]}
    assert (world.oddities, world.stamps) == ({}, {})
    assert not {record["ListingKey"] for record in world.records["Property"]} & set(KEYS)
    assert all(record["ListAgentKey"] in members for record in world.records["Property"])
    assert {record["StandardStatus"] for record in world.records["Property"]} == set(STATUSES)


def test_canaries_are_in_private_fields_and_nowhere_else(world: World) -> None:
    store = Store(Settings())
    world.put_into(store)
    changes = Changes(store, 1)
    for _ in range(500):
        changes.step()
    for resource in world.records:
        private = PRIVATE.get(resource, ())
        for record in store.records(resource).values():
            assert all(CANARY in record[field] for field in private)
            assert CANARY.encode() not in orjson.dumps({name: record[name] for name in record if name not in private})


def test_changes_are_those_of_their_seed(world: World) -> None:
    stores, made = [Store(Settings()) for _ in range(3)], []
    for store, seed in zip(stores, (1, 1, 2), strict=True):
        world.put_into(store)
        changes = Changes(store, seed)
        made.append([changes.step() for _ in range(300)])
    assert made[0] == made[1] != made[2]
    assert all(stores[0].records(name) == stores[1].records(name) for name in ENTITY_TYPES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_change_writes(world: World, kind: str) -> None:
    store = Store(Settings())
    world.put_into(store)
    before, sequence = store.clock.now, store.events.sequence
    changed = Changes(store, 1, kinds=[kind]).step()
    record = store.get(changed.resource, changed.key)
    assert changed.kind == kind
    assert store.events.sequence > sequence
    assert record[STAMP] >= before if record else kind.endswith(("deleted", "removed"))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_changes_find_something_to_do_in_the_smallest_world(count: int) -> None:
    counts = dict.fromkeys(("properties", "media", "open_houses", "teams", "team_members"), count)
    world = make_world(1, **counts, members=1, offices=1, hostile=1)  # type: ignore[arg-type]
    store = Store(Settings())
    world.put_into(store)
    changes = Changes(store, 1)
    for _ in range(300):
        sequence = store.events.sequence
        changes.step()
        assert store.events.sequence > sequence
    assert len({change.kind for change in changes.made}) > 15
