"""The ledger of events in every order of steps: who asks behind the last event it has seen misses nothing."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster import events
from mappings import RESOURCES
from service.reso.sequence import Ledger
from tests.indexer.event_machine import Follower, Live, World

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Change = tuple[str, str, int | None]
    Step = tuple[Callable[..., None], dict[str, Any]]

# Few, so that they often meet.
BUSY = RESOURCES[:3]
ALIASES = st.sampled_from([resource.alias for resource in BUSY])
NAMES = st.sampled_from("ab")
CONTENTS = st.none() | st.integers(1, 5)
FOLLOWERS = 3


def numbers(ledger: Ledger, alias: str) -> list[int | None]:
    """Return the numbers of all sequences of a resource, from 1 to the first that is not told."""
    return [ledger.number(alias, sequence) for sequence in range(1, ledger.upto(alias) + 2)]


def check_numbers(before: Ledger, now: Ledger) -> None:
    """Check that every number stays, or is told again behind all that could be seen before."""
    for alias, reach in before.head.reaches.items():
        is_same = now.head.reaches[alias].epoch == reach.epoch
        for old, new in zip(numbers(before, alias)[:-1], numbers(now, alias), strict=False):
            assert new == old or (new is None and not is_same) or (new is not None and new > before.end)


def check_places(ledger: Ledger) -> None:
    """Check that no number is given twice, and that places are what the numbers say."""
    given = {alias: numbers(ledger, alias) for alias in ledger.head.reaches}
    told = {alias: [number for number in found if number is not None] for alias, found in given.items()}
    every = [number for found in told.values() for number in found]
    assert len(every) == len(set(every))
    assert max(every, default=0) <= ledger.end
    for alias, found in told.items():
        assert given[alias] == [*sorted(found), None]
        for event in {0, ledger.end, ledger.end + 1, *every, *(number + 1 for number in every)}:
            assert ledger.place(alias, event) == bisect_right(found, event)


def check_bounds(ledger: Ledger) -> None:
    """Check that neither the ledger nor its head grows without end."""
    assert ledger.head.count <= events.MOST_PUBLICATIONS
    assert len(ledger.head.publications) <= events.ARCHIVED_TOGETHER + len(BUSY)


class Play:
    """Writers, appending runs and followers, each of which goes on by a step at a time."""

    def __init__(self) -> None:
        """Nothing is told yet."""
        self.world = World(BUSY)
        self.followers = [Follower() for _ in range(FOLLOWERS)]
        self.ledgers = [Ledger()]

    def write(self, alias: str, name: str, content: int | None, step: str) -> None:
        """Let a writer go on by one step."""
        live = self.world.live[alias]
        {"write": lambda: live.write(name, content), "refresh": live.refresh, "publish": live.publish}[step]()

    def update(self, changes: list[Change], *, is_told: bool) -> None:
        """Apply changes one by one, each of which is told at once or not."""
        for alias, name, content in changes:
            live = self.world.live[alias]
            live.write(name, content)
            live.refresh()
            live.publish()
            if is_told:
                self.tell()

    def kill_writer(self, alias: str, *, is_sent: bool) -> None:
        """Let a writer die, before or behind what it had sent."""
        self.world.live[alias].die(is_sent=is_sent)

    def turn(self, alias: str, turn: Callable[[Live], None]) -> None:
        """Begin another generation, go back to the one before, or delete a tombstone."""
        turn(self.world.live[alias])

    def follow(self, alias: str, name: str, contents: list[int | None], turn: Callable[[Live], None], at: int) -> None:
        """Let a follower read a record in two states, and then meet a turn of things."""
        for content in contents:
            self.world.live[alias].rebuild()
            self.update([(alias, name, content)], is_told=True)
            self.poll(at, 1, 20)
        turn(self.world.live[alias])

    def tell_slowly(self, changes: list[tuple[int | None, Change]], turns: list[int], *, is_killed: bool) -> None:
        """Let a run begin behind each change, which may put off what makes the ledger grow; all go on by steps.

        One of them may be killed in the end.
        """
        for (growth, change), at in zip(changes, turns, strict=False):
            self.update([change], is_told=False)
            self.world.begin(growth)
            self.world.step(at)
        for at in turns:
            if self.world.telling:
                self.world.step(at)
                self.look()
        if is_killed and self.world.telling:
            self.world.kill(turns[0])

    def tell(self) -> None:
        """Tell everything, before anybody else goes on."""
        self.world.begin()
        before = len(self.world.telling)
        while len(self.world.telling) == before:
            self.world.step(before - 1)
        self.look()

    def poll(self, at: int, age: int, size: int) -> None:
        """Ask a process of the service that may have read the ledger some time ago."""
        self.followers[at].poll(self.world, self.ledgers[-min(age, len(self.ledgers))], size)

    def look(self) -> None:
        """Look at the ledger, where it is a new one."""
        if (now := self.world.read()) is not self.ledgers[-1]:
            check_numbers(self.ledgers[-1], now)
            check_places(now)
            check_bounds(now)
            anew = self.world.read(is_anew=True)
            assert all(numbers(anew, alias) == numbers(now, alias) for alias in self.world.live)
            self.ledgers.append(now)

    def end(self) -> None:
        """Publish, tell and ask for everything: every copy is what is served."""
        for live in self.world.live.values():
            live.refresh()
            live.publish()
        self.tell()
        for follower in self.followers:
            while self.world.events(self.ledgers[-1], follower.last):
                follower.poll(self.world, self.ledgers[-1], 100)
            follower.poll(self.world, self.ledgers[-1], 1)
            assert follower.held == self.world.records()
        for run in self.world.telling:
            run.work.close()


def step(method: Callable[..., None], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Return the calls of a method of Play."""
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
    step(Play.update, changes=CHANGES, is_told=st.booleans()),
    step(Play.kill_writer, alias=ALIASES, is_sent=st.booleans()),
    step(Play.turn, alias=ALIASES, turn=TURNS),
    step(
        Play.tell_slowly,
        changes=st.lists(st.tuples(st.none() | st.integers(0, 2), CHANGE), max_size=3),
        turns=st.lists(st.integers(0, 9), min_size=1, max_size=20),
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
    step(Play.tell),
    POLLS,
    POLLS,
)


@given(steps=st.lists(STEPS, min_size=30, max_size=60))
def play(steps: list[Step]) -> None:
    """Take some steps, then check where they have led."""
    one = Play()
    for method, options in steps:
        method(one, **options)
        one.look()
    one.end()


def test_in_every_order_of_steps_nothing_is_missed_and_no_number_changes(
    monkeypatch: pytest.MonkeyPatch, amount: Callable[[int, int], int]
) -> None:
    monkeypatch.setattr(events, "ARCHIVED_TOGETHER", 3)
    monkeypatch.setattr(events, "MOST_PUBLICATIONS", 12)
    checks = [HealthCheck.large_base_example, HealthCheck.data_too_large, HealthCheck.too_slow]
    settings(max_examples=amount(200, 5_000), suppress_health_check=checks)(play)()
