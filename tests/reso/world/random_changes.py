"""Random changes of what a server holds, one at a time, the way the records of an MLS change."""

from collections.abc import Callable
from typing import Any

from sample.ingredients import pick, seeded_random, uuid, weighted_list
from tests.reso.server.schema import ENTITY_TYPES, MODIFICATION_FIELD, PRIVATE
from tests.reso.server.store import Store
from tests.reso.world.generated_world import make_record, spoil

_RESOURCES = weighted_list(
    {"Property": 8, "Media": 6, "OpenHouse": 3, "Member": 3, "TeamMembers": 2, "Office": 1, "Teams": 1}
)
# Offices and teams stay: others refer to them.
_COMING_AND_GOING = [name for name in _RESOURCES if name not in {"Office", "Teams"}]


class RandomChanges:
    """The same seed makes the same changes of the same data."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store, self._chance = store, seeded_random(seed, "changes")
        ways: dict[Callable[[], bool], int] = {
            self._change: 50,
            self._add: 20,
            self._delete: 15,
            self._touch: 3,
            self._spoil: 1,
        }
        self._ways = weighted_list(ways)

    def step(self) -> None:
        with self._store.lock:
            while not pick(self._chance, self._ways)():
                pass

    def _any(self, resources: list[str]) -> tuple[str, Any]:
        """Return a resource with the key of one of its records, None if it has none."""
        resource = pick(self._chance, [name for name in resources if name in self._store.entities])
        keys = self._store.keys(resource)
        return resource, pick(self._chance, keys) if keys else None

    def _change(self) -> bool:
        """Change some fields: values, the status, who sells it, and the parent of a child."""
        resource, key = self._any(_RESOURCES)
        if key is None:
            return False
        fixed = {ENTITY_TYPES[resource].key, MODIFICATION_FIELD, "PhotosCount", *PRIVATE.get(resource, ())}
        other = make_record(self._chance, resource, "", self._store.keys)
        names = self._chance.sample([name for name in other if name not in fixed], 2)
        names += ["StandardStatus"] if resource == "Property" and self._chance.random() < 0.3 else []
        if resource == "Media" and self._chance.random() < 0.2:
            names += ["ResourceName", "ResourceRecordKey"]
        self._store.patch(resource, key, **{name: other[name] for name in names})
        return True

    def _add(self) -> bool:
        """Add a record, to a listing also its photos: who reads in between sees a listing without them."""
        resource, key = pick(self._chance, _COMING_AND_GOING), uuid(self._chance)
        parents = {"TeamMembers": ("Teams", "Member"), "OpenHouse": ("Property",), "Media": ("Property",)}
        needed = (resource, *parents.get(resource, ()))
        if not all(name in self._store.entities and self._store.keys(name) for name in needed):
            return False
        self._store.put(resource, make_record(self._chance, resource, key, self._store.keys))
        for _ in range(2 if resource == "Property" else 0):
            photo = make_record(self._chance, "Media", uuid(self._chance), self._store.keys)
            self._store.put("Media", photo | {"ResourceName": "Property", "ResourceRecordKey": key})
        return True

    def _delete(self) -> bool:
        resource, key = self._any(_COMING_AND_GOING)
        return key is not None and self._store.delete(resource, key)

    def _touch(self) -> bool:
        _, key = self._any(["Property"])
        return key is not None and bool(self._store.patch("Property", key))

    def _spoil(self) -> bool:
        _, key = self._any(["Property"])
        if key is None:
            return False
        record = self._store.get("Property", key) or {}
        self._store.put("Property", spoil(self._chance, "Property", record))
        return True
