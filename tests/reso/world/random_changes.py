"""Random changes of what a server holds, one at a time, the way the records of an MLS change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sample.ingredients import pick, seeded_random, weighted_list
from tests.reso.world.child_changes import CHILD_CHANGES
from tests.reso.world.generated_world import TODAY
from tests.reso.world.listing_changes import HOME_CHANGES
from tests.reso.world.people_changes import PEOPLE_CHANGES
from tests.reso.world.status_changes import Participants

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection
    from random import Random

    from tests.reso.server.schema import Record
    from tests.reso.server.store import Store

_KINDS = HOME_CHANGES | CHILD_CHANGES | PEOPLE_CHANGES
CHANGE_KINDS = tuple(_KINDS)


class Change(NamedTuple):
    """One that was made: of which kind, and the record that it is about."""

    kind: str
    resource: str
    key: str


class ChangeContext:
    """What the changes work with: the store, chance, and who is in it at the moment."""

    def __init__(self, store: Store, chance: Random, today: dt.date) -> None:
        """Work on a store."""
        self.store, self.chance, self.today = store, chance, today

    def any(self, resource: str) -> Record | None:
        """Return a record of a resource, or None when it has none."""
        keys = self.store.keys(resource)
        return self.store.get(resource, pick(self.chance, keys)) if keys else None

    @property
    def cast(self) -> Participants:
        """A few members, teams and the day."""
        members = [found for _ in range(5) if (found := self.any("Member"))]
        return Participants(members, [found for _ in range(2) if (found := self.any("Teams"))], self.today)


class RandomChanges:
    """`made` lists them all. The same seed makes the same changes of the same data."""

    def __init__(
        self, store: Store, seed: int, *, kinds: Collection[str] = CHANGE_KINDS, today: dt.date = TODAY
    ) -> None:
        """Choose among some kinds, all by default."""
        self._store, self._chance = store, seeded_random(seed, "changes")
        self._hand = ChangeContext(store, self._chance, today)
        self._wheel = weighted_list({kind: _KINDS[kind].weight for kind in _KINDS if kind in kinds})
        self.applied: list[Change] = []

    def step(self) -> Change:
        """Make one change and return it; of a kind for which there is a record."""
        with self._store.lock:
            while True:
                kind = pick(self._chance, self._wheel)
                if (target := _KINDS[kind].make(self._hand)) is not None:
                    self.applied.append(Change(kind, *target))
                    return self.applied[-1]
