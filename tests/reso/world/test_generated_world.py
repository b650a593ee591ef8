"""The made-up world holds what other tests rely on: oddities, changes of every kind, canaries in private fields."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from tests.reso.server.schema import MODIFICATION_FIELD, PRIVATE
from tests.reso.server.server_settings import ServerSettings
from tests.reso.server.store import Store
from tests.reso.world.generated_world import World, make_world
from tests.reso.world.oddities import KEYS, ODDITIES
from tests.reso.world.people_records import CANARY
from tests.reso.world.random_changes import CHANGE_KINDS, RandomChanges
from tests.reso.world.vocabulary import STATUSES


def small(seed: int = 1, hostile: float = 0.1) -> World:
    """Return a world of a few hundred listings."""
    counts = {"properties": 600, "media": 1_200, "open_houses": 500, "members": 120, "offices": 40}
    return make_world(seed, **counts, teams=20, team_members=40, hostile=hostile)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def world() -> World:
    """One of the worlds."""
    return small()


def test_a_world_has_every_status_and_its_oddities(world: World) -> None:
    assert set(STATUSES) <= {record["StandardStatus"] for record in world.records["Property"]}
    assert set(KEYS) <= {record["ListingKey"] for record in world.records["Property"]}
    named = Counter((resource, name) for (resource, _), name in world.oddities.items())
    assert {resource for resource, _ in named} == set(ODDITIES)
    assert {name for resource, name in named if resource == "Property"} == set(ODDITIES["Property"])
    assert len(world.stamps) == 9


def test_canaries_are_in_private_fields_and_nowhere_else(world: World) -> None:
    store = Store(ServerSettings())
    world.put_into(store)
    changes = RandomChanges(store, 1)
    for _ in range(500):
        changes.step()
    for resource in world.records:
        private = PRIVATE.get(resource, ())
        for record in store.records(resource).values():
            assert all(CANARY in record[field] for field in private)
            assert CANARY.encode() not in orjson.dumps({name: record[name] for name in record if name not in private})


@pytest.mark.parametrize("kind", CHANGE_KINDS)
def test_every_kind_of_change_writes(world: World, kind: str) -> None:
    store = Store(ServerSettings())
    world.put_into(store)
    before, sequence = store.clock.now, store.events.sequence
    changed = RandomChanges(store, 1, kinds=[kind]).step()
    record = store.get(changed.resource, changed.key)
    assert changed.kind == kind
    assert store.events.sequence > sequence
    assert record[MODIFICATION_FIELD] >= before if record else kind.endswith(("deleted", "removed"))
