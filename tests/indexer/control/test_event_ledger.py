"""The event ledger in every order of steps: a consumer that polls after its last event misses nothing."""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cluster.control_index as publications
from mappings import RESOURCES
from service.reso.entity_events import EventLedger
from tests.indexer.control.event_machine import Follower, Live, World
from tests.internals import Internals

Change = tuple[str, str, int | None]
Step = tuple[Callable[..., None], dict[str, Any]]

# Few, so that they often meet.
BUSY = RESOURCES[:3]
ALIASES = st.sampled_from([resource.alias for resource in BUSY])
NAMES = st.sampled_from("ab")
CONTENTS = st.none() | st.integers(1, 5)
FOLLOWERS = 3


def numbers(ledger: EventLedger, alias: str) -> list[int | None]:
    """Return the numbers of all sequences of a resource, from 1 to the first unpublished one."""
    return [ledger.event_number(alias, sequence) for sequence in range(1, ledger.published_sequence(alias) + 2)]


def check_numbers(before: EventLedger, now: EventLedger) -> None:
    """Check that every number is kept, or published again after all that could be seen before."""
    for alias, shard_scope in before.head.reaches.items():
        is_same = now.head.reaches[alias].epoch == shard_scope.epoch
        for old, new in zip(numbers(before, alias)[:-1], numbers(now, alias), strict=False):
            assert new == old or (new is None and not is_same) or (new is not None and new > before.end)


def check_places(ledger: EventLedger) -> None:
    """Check that no number is assigned twice, and that positions match the numbers."""
    given = {alias: numbers(ledger, alias) for alias in ledger.head.reaches}
    published = {alias: [number for number in found if number is not None] for alias, found in given.items()}
    every = [number for found in published.values() for number in found]
    assert len(every) == len(set(every))
    assert max(every, default=0) <= ledger.end
    for alias, found in published.items():
        assert given[alias] == [*sorted(found), None]
        for event in {0, ledger.end, ledger.end + 1, *every, *(number + 1 for number in every)}:
            assert ledger.sequence_at(alias, event) == bisect_right(found, event)


def check_bounds(ledger: EventLedger) -> None:
    """Check that neither the ledger nor its head grows without bound."""
    assert ledger.head.count <= publications.MAX_PUBLICATIONS
    assert len(ledger.head.publications) <= publications.PUBLICATIONS_PER_ARCHIVE + len(BUSY)


class Play:
    """Writers, appending runs and followers, each of which advances by a step at a time."""

    def __init__(self) -> None:
        self.world = World(BUSY)
        self.followers = [Follower() for _ in range(FOLLOWERS)]
        self.ledgers = [EventLedger()]

    def write(self, alias: str, name: str, content: int | None, step: str) -> None:
        live = self.world.live[alias]
        {"write": lambda: live.write(name, content), "refresh": live.refresh, "publish": live.publish}[step]()

    def update(self, changes: list[Change], *, is_published: bool) -> None:
        """Apply changes one by one, each of which is published at once or not."""
        for alias, name, content in changes:
            live = self.world.live[alias]
            live.write(name, content)
            live.refresh()
            live.publish()
            if is_published:
                self.publish_all()

    def kill_writer(self, alias: str, *, is_sent: bool) -> None:
        self.world.live[alias].die(is_sent=is_sent)

    def turn(self, alias: str, turn: Callable[[Live], None]) -> None:
        """Begin another generation, go back to the previous one, or delete a tombstone."""
        turn(self.world.live[alias])

    def follow(self, alias: str, name: str, contents: list[int | None], turn: Callable[[Live], None], at: int) -> None:
        """Let a follower read a record in two states, and then meet a change of generation."""
        for content in contents:
            self.world.live[alias].rebuild()
            self.update([(alias, name, content)], is_published=True)
            self.poll(at, 1, 20)
        turn(self.world.live[alias])

    def publish_slowly(self, changes: list[tuple[int | None, Change]], schedule: list[int], *, is_killed: bool) -> None:
        """Start a run after each change, which may postpone growth of the ledger; all advance by steps.

        One of them may be killed in the end.
        """
        for (growth, change), at in zip(changes, schedule, strict=False):
            self.update([change], is_published=False)
            self.world.begin(growth)
            self.world.step(at)
        for at in schedule:
            if self.world.runs:
                self.world.step(at)
                self.look()
        if is_killed and self.world.runs:
            self.world.kill(schedule[0])

    def publish_all(self) -> None:
        """Publish everything before any other run advances."""
        self.world.begin()
        before = len(self.world.runs)
        while len(self.world.runs) == before:
            self.world.step(before - 1)
        self.look()

    def poll(self, at: int, age: int, size: int) -> None:
        """Poll a process of the service that may have read the ledger some time ago."""
        self.followers[at].poll(self.world, self.ledgers[-min(age, len(self.ledgers))], size)

    def look(self) -> None:
        """Read the ledger if it is a new one."""
        if (now := self.world.read()) is not self.ledgers[-1]:
            check_numbers(self.ledgers[-1], now)
            check_places(now)
            check_bounds(now)
            fresh = self.world.read(is_new=True)
            assert all(numbers(fresh, alias) == numbers(now, alias) for alias in self.world.live)
            self.ledgers.append(now)

    def end(self) -> None:
        """Publish, append and poll everything: every copy equals what is served."""
        for live in self.world.live.values():
            live.refresh()
            live.publish()
        self.publish_all()
        for follower in self.followers:
            while self.world.events(self.ledgers[-1], follower.last):
                follower.poll(self.world, self.ledgers[-1], 100)
            follower.poll(self.world, self.ledgers[-1], 1)
            assert follower.held == self.world.records()
        for run in self.world.runs:
            run.work.close()


def step(method: Callable[..., None], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(given).map(lambda options: (method, options))


WRITES = step(
    Play.write, alias=ALIASES, name=NAMES, content=CONTENTS, step=st.sampled_from(["write", "refresh", "publish"])
)
CHANGE = st.tuples(ALIASES, NAMES, CONTENTS)
CHANGES = st.lists(CHANGE, min_size=1, max_size=6)
TURNS = st.sampled_from([Live.rebuild, Live.roll_back, Live.roll_back, Live.prune, Live.prune])
POLLS = step(Play.poll, at=st.integers(0, FOLLOWERS - 1), age=st.integers(1, 3), size=st.integers(1, 20))
STEPS = st.one_of(
    WRITES,
    step(Play.update, changes=CHANGES, is_published=st.booleans()),
    step(Play.kill_writer, alias=ALIASES, is_sent=st.booleans()),
    step(Play.turn, alias=ALIASES, turn=TURNS),
    step(
        Play.publish_slowly,
        changes=st.lists(st.tuples(st.none() | st.integers(0, 2), CHANGE), max_size=3),
        schedule=st.lists(st.integers(0, 9), min_size=1, max_size=20),
        is_killed=st.booleans(),
    ),
    step(
        Play.follow,
        alias=ALIASES,
        name=NAMES,
        contents=st.lists(CONTENTS, min_size=2, max_size=2),
        turn=TURNS,
        at=st.integers(0, FOLLOWERS - 1),
    ),
    step(Play.publish_all),
    POLLS,
    POLLS,
)


@given(steps=st.lists(STEPS, min_size=30, max_size=60))
def play(steps: list[Step]) -> None:
    """Take some steps, then check the result."""
    one = Play()
    for method, options in steps:
        method(one, **options)
        one.look()
    one.end()


def test_in_every_order_of_steps_nothing_is_missed_and_no_number_changes(
    internals: Internals, amount: Callable[[int, int], int]
) -> None:
    internals(publications_per_archive=3, most_publications=12)
    checks = [HealthCheck.large_base_example, HealthCheck.data_too_large, HealthCheck.too_slow]
    settings(max_examples=amount(100, 5_000), suppress_health_check=checks)(play)()
