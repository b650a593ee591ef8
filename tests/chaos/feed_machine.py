"""A state machine of one feed: its writers and readers in any order.

The indexer can pause between any two of its steps while consumers read. `tests.simulation.model` computes what they may
and must see; `machine_readers` checks every page.
"""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mappings import LISTING, SOLD_LISTING
from tests.chaos.machine_environment import MachineEnvironment
from tests.chaos.machine_readers import MachineReaders
from tests.chaos.machine_run import MachineRun
from tests.simulation.model import ENDS, FORMS, OTHERS, Change

_OPEN_WALKS = 3
_REBUILDS = 2  # in one run: they cost as much as all the rest


_STYLES: tuple[dict[str, str], ...] = (
    {},
    {"underscore_response": "true"},
    {"timestamps_only": "true"},
    {"timestamps_only": "true", "underscore_response": "true"},
)


records, forms = st.integers(0, len(ENDS) - 1), st.sampled_from(FORMS)
one_change = st.tuples(records, st.one_of(forms, st.sampled_from(OTHERS)))
some_changes = st.lists(one_change, min_size=1, max_size=4, unique_by=lambda change: change[0])
# How many steps the indexer may take before it pauses.
rooms = st.sampled_from([math.inf, math.inf, 0, 0, 1, 2, 3, 4])
ways = st.tuples(st.integers(1, 5), st.sampled_from(_STYLES))
choices, pages, two, four = st.integers(0, 11), st.integers(1, 4), st.integers(0, 1), st.integers(0, 3)


class FeedMachine(RuleBasedStateMachine):
    """One run: records of one resource, their changes and their readers. The test sets the class attributes."""

    environment: ClassVar[MachineEnvironment]
    runner: ClassVar[asyncio.Runner]
    readers: MachineReaders
    rebuilds = 0
    is_sound = False

    @initialize(
        is_sold=st.booleans(), given=st.lists(forms, min_size=6, max_size=len(ENDS)), polling=st.tuples(ways, ways)
    )
    def start(self, is_sold: bool, given: list[Any], polling: Any) -> None:
        """Load some records; two consumers start without a copy."""
        self.readers = MachineReaders(self.environment, SOLD_LISTING if is_sold else LISTING, polling)
        self.do(self.play.update(self.play.changed(list(enumerate(given)))))

    @property
    def play(self) -> MachineRun:
        return self.readers.play

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a rule; if it fails, the run is not compared at its end."""
        self.is_sound = False
        self.runner.run(work)
        self.is_sound = True

    @precondition(lambda self: self.play.may_write)
    @rule(changes=some_changes, room=rooms)
    def update(self, changes: list[tuple[int, Change]], room: float) -> None:
        """Insert, change, move, delete, restore or touch records, or publish them late."""
        self.do(self.play.update(self.play.changed(changes), room))

    @precondition(lambda self: self.play.is_idle and self.rebuilds < _REBUILDS)
    @rule(lacking=st.sets(records, max_size=4), ahead=some_changes, age=st.integers(0, 3), room=rooms)
    def rebuild(self, lacking: set[int], ahead: list[tuple[int, Change]], age: int, room: float) -> None:
        """Rebuild from a full source that lacks some records, has some changes already, and may be older."""
        self.rebuilds += 1
        source = {**self.play.truth.model.live, **self.play.changed(ahead)}
        for at in lacking:
            source.pop(self.play.identifiers[at], None)
        self.do(self.play.rebuild(source, age, room))

    @precondition(lambda self: self.play.is_idle and self.play.truth.previous is not None and self.rebuilds)
    @rule(room=rooms)
    def roll_back(self, room: float) -> None:
        """Roll back to the previous generation; consumers then start over."""
        self.do(self.play.roll_back(room, self.readers.forget))

    @precondition(lambda self: not self.play.is_idle)
    @rule(room=st.sampled_from([1, 1, 2, math.inf]), milliseconds=st.sampled_from([0, 1_500]))
    def go_on(self, room: float, milliseconds: int) -> None:
        self.environment.clock.milliseconds += milliseconds
        self.do(self.play.go_on(room))

    @precondition(lambda self: not self.play.is_idle)
    @rule(which=four, replica=two, step=st.integers(0, 5), milliseconds=st.sampled_from([0, 1_500]))
    def watch(self, which: int, replica: int, step: int, milliseconds: int) -> None:
        """Run the indexer to its end slowly, and read a copy between two of its steps."""
        self.do(self.readers.watch(which, replica, step, milliseconds))

    @precondition(lambda self: not self.play.is_idle)
    @rule(which=choices)
    def refresh(self, which: int) -> None:
        """Refresh the index, or one of its shards, as Elasticsearch does periodically."""
        self.do(self.play.refresh(which))

    @rule(milliseconds=st.sampled_from([1, 400, 999, 1_000, 2_600]))
    def wait(self, milliseconds: int) -> None:
        self.environment.clock.milliseconds += milliseconds

    @precondition(lambda self: len(self.readers.walks) < _OPEN_WALKS)
    @rule(choice=choices, way=ways, is_again=st.booleans(), count=pages, replica=two)
    def begin_walk(self, choice: int, way: Any, is_again: bool, count: int, replica: int) -> None:
        """Start a walk, often the same as an earlier one."""
        walk = self.readers.begin(choice, way, replica, is_again=is_again)
        self.do(self.readers.walk_on(walk, count))

    @precondition(lambda self: self.readers.walks)
    @rule(choice=choices, count=pages)
    def walk_on(self, choice: int, count: int) -> None:
        walks = self.readers.walks
        self.do(self.readers.walk_on(walks[choice % len(walks)], count))

    @rule(which=two, count=st.sampled_from([1, 2, 4, 30]), replica=two)
    def poll(self, which: int, count: int, replica: int) -> None:
        self.do(self.readers.poll(self.readers.consumers[which], count, replica))

    @rule(which=two, count=st.sampled_from([0, 1, 2, 4, 30]), replica=two)
    def follow(self, which: int, count: int, replica: int) -> None:
        """Let a follower of `/changes` read some of them, or a snapshot."""
        self.do(self.readers.follow(self.readers.followers[which], count, replica))

    @precondition(lambda self: self.play.is_idle)
    @rule(which=two, changes=some_changes, replica=two, milliseconds=st.sampled_from([1, 1_500]))
    def overtake(self, which: int, changes: list[tuple[int, Change]], replica: int, milliseconds: int) -> None:
        """Change records during a search: later identical requests must not share its response."""

        async def change() -> None:
            self.environment.clock.milliseconds += milliseconds
            await self.play.update(self.play.changed(changes))

        self.do(self.readers.overtake(self.readers.consumers[which], replica, change))

    @precondition(lambda self: self.play.is_idle and not self.readers.is_compared)
    @rule()
    def compare(self) -> None:
        self.do(self.readers.compare())

    def teardown(self) -> None:
        note(f"identifiers begin with {self.play.identifiers[0][:-1]}")
        try:
            if self.is_sound:
                self.do(self.readers.compare())
        finally:
            self.runner.run(self.play.end())
