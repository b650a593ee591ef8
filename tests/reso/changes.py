"""Random changes of what a server holds, one at a time, the way the records of an MLS change."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sample.dice import dice, pick, wheel
from tests.reso.changing_children import CHILD_CHANGES
from tests.reso.changing_homes import HOME_CHANGES
from tests.reso.changing_people import PEOPLE_CHANGES
from tests.reso.statuses import Cast
from tests.reso.world import TODAY

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterator
    from random import Random

    from tests.reso.schema import Record
    from tests.reso.store import Store

_KINDS = HOME_CHANGES | CHILD_CHANGES | PEOPLE_CHANGES
KINDS = tuple(_KINDS)


class Change(NamedTuple):
    """One that was made: of which kind, and the record that it is about."""

    kind: str
    resource: str
    key: str


class Hand:
    """What the changes work with: the store, chance, and who is in it at the moment."""

    def __init__(self, store: Store, chance: Random, today: dt.date) -> None:
        """Work on a store."""
        self.store, self.chance, self.today = store, chance, today

    def any(self, resource: str) -> Record | None:
        """Return a record of a resource, or None when it has none."""
        keys = self.store.keys(resource)
        return self.store.get(resource, pick(self.chance, keys)) if keys else None

    @property
    def cast(self) -> Cast:
        """A few members, teams and the day."""
        members = [found for _ in range(5) if (found := self.any("Member"))]
        return Cast(members, [found for _ in range(2) if (found := self.any("Teams"))], self.today)


class Changes:
    """`made` lists them all. The same seed makes the same changes of the same data."""

    def __init__(self, store: Store, seed: int, *, kinds: Collection[str] = KINDS, today: dt.date = TODAY) -> None:
        """Choose among some kinds, all by default."""
        self._store, self._chance = store, dice(seed, "changes")
        self._hand = Hand(store, self._chance, today)
        self._wheel = wheel({kind: _KINDS[kind].weight for kind in _KINDS if kind in kinds})
        self.made: list[Change] = []

    def step(self) -> Change:
        """Make one change and return it; of a kind for which there is a record."""
        with self._store.lock:
            while True:
                kind = pick(self._chance, self._wheel)
                if (target := _KINDS[kind].make(self._hand)) is not None:
                    self.made.append(Change(kind, *target))
                    return self.made[-1]


@contextmanager
def changing(changes: Changes, a_second: float) -> Iterator[Changes]:
    """Make so many changes a second in a thread, until the end of the block; what goes wrong there is raised."""
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not over.wait(1 / a_second):
                changes.step()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="changes", daemon=True)
    thread.start()
    try:
        yield changes
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
