"""A state machine of one feed: everything that changes it and everyone who reads it, in any order.

The indexer's work can stand still between any two of its steps while consumers read on. What they may and must see is
worked out in `machine_truth`; what is checked of every page stands in `machine_walks`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mappings import LISTING, SOLD_LISTING
from tests.chaos.machine_asks import STYLES
from tests.chaos.machine_readers import Readers
from tests.chaos.machine_truth import ENDS, FORMS, OTHERS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from tests.chaos.machine_corner import Corner
    from tests.chaos.machine_play import Change, Play

_OPEN_WALKS = 3
_REBUILDS = 2  # in one run: they cost as much as all the rest

records, forms = st.integers(0, len(ENDS) - 1), st.sampled_from(FORMS)
one_change = st.tuples(records, st.one_of(forms, st.sampled_from(OTHERS)))
some_changes = st.lists(one_change, min_size=1, max_size=4, unique_by=lambda one: one[0])
# How many of its steps a work of the indexer may take before it stands still.
rooms = st.sampled_from([math.inf, math.inf, 0, 0, 1, 2, 3, 4])
ways = st.tuples(st.integers(1, 5), st.sampled_from(STYLES))
choices, pages, two, four = st.integers(0, 11), st.integers(1, 4), st.integers(0, 1), st.integers(0, 3)


class Machine(RuleBasedStateMachine):
    """One run: some records of one resource, what happens to them, and who reads. The test sets the class's members."""

    corner: ClassVar[Corner]
    runner: ClassVar[asyncio.Runner]
    readers: Readers
    rebuilds = 0
    is_sound = False

    @initialize(
        is_sold=st.booleans(),
        given=st.lists(forms, min_size=6, max_size=len(ENDS)),
        polling=st.tuples(ways, ways),
    )
    def start(self, is_sold: bool, given: list[Any], polling: Any) -> None:
        """Load some records; two consumers know nothing yet."""
        self.readers = Readers(self.corner, SOLD_LISTING if is_sold else LISTING, polling)
        self.do(self.play.update(self.play.changed(list(enumerate(given)))))

    @property
    def play(self) -> Play:
        """What happens to the records."""
        return self.readers.play

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a rule's work; a run in which it fails is not compared at its end."""
        self.is_sound = False
        self.runner.run(work)
        self.is_sound = True

    @precondition(lambda self: self.play.may_write)
    @rule(changes=some_changes, room=rooms)
    def update(self, changes: list[Change], room: float) -> None:
        """Records are inserted, changed, moved, deleted, revived, touched, or told of too late."""
        self.do(self.play.update(self.play.changed(changes), room))

    @precondition(lambda self: self.play.is_idle and self.rebuilds < _REBUILDS)
    @rule(
        lacking=st.sets(records, max_size=4),
        ahead=some_changes,
        age=st.integers(0, 3),
        room=rooms,
    )
    def rebuild(self, lacking: set[int], ahead: list[Change], age: int, room: float) -> None:
        """A full source lacks some records, knows some changes already, and may be of an earlier time."""
        self.rebuilds += 1
        source = {**self.play.truth.model.live, **self.play.changed(ahead)}
        for at in lacking:
            source.pop(self.play.identifiers[at], None)
        self.do(self.play.rebuild(source, age, room))

    @precondition(lambda self: self.play.is_idle and self.play.truth.previous is not None and self.rebuilds)
    @rule(room=rooms)
    def roll_back(self, room: float) -> None:
        """The generation before comes back; consumers begin anew once it has."""
        self.do(self.play.roll_back(room, self.readers.forget))

    @precondition(lambda self: not self.play.is_idle)
    @rule(room=st.sampled_from([1, 1, 2, math.inf]), milliseconds=st.sampled_from([0, 1_500]))
    def go_on(self, room: float, milliseconds: int) -> None:
        """The indexer goes on with what it stood still in, perhaps for some time."""
        self.corner.clock.milliseconds += milliseconds
        self.do(self.play.go_on(room))

    @precondition(lambda self: not self.play.is_idle)
    @rule(which=four, replica=two, step=st.integers(0, 5), milliseconds=st.sampled_from([0, 1_500]))
    def watch(self, which: int, replica: int, step: int, milliseconds: int) -> None:
        """The indexer goes on to the end, slowly, and someone who keeps a copy reads between two of its steps."""
        self.do(self.readers.watch(which, replica, step, milliseconds))

    @precondition(lambda self: not self.play.is_idle)
    @rule()
    def refresh(self) -> None:
        """Elasticsearch refreshes in its own time."""
        self.do(self.play.refresh())

    @rule(milliseconds=st.sampled_from([1, 400, 999, 1_000, 2_600]))
    def wait(self, milliseconds: int) -> None:
        """The indexer's clock goes on."""
        self.corner.clock.milliseconds += milliseconds

    @precondition(lambda self: len(self.readers.walks) < _OPEN_WALKS)
    @rule(choice=choices, way=ways, is_again=st.booleans(), count=pages, replica=two)
    def begin_walk(self, choice: int, way: Any, is_again: bool, count: int, replica: int) -> None:
        """Someone begins to walk, often as someone has before."""
        walk = self.readers.begin(choice, way, replica, is_again=is_again)
        self.do(self.readers.walk_on(walk, count))

    @precondition(lambda self: self.readers.walks)
    @rule(choice=choices, count=pages)
    def walk_on(self, choice: int, count: int) -> None:
        """One of those who walk comes for the next pages."""
        walks = self.readers.walks
        self.do(self.readers.walk_on(walks[choice % len(walks)], count))

    @rule(which=two, count=st.sampled_from([1, 2, 4, 30]), replica=two)
    def poll(self, which: int, count: int, replica: int) -> None:
        """A consumer goes on with its poll, or begins one."""
        self.do(self.readers.poll(self.readers.consumers[which], count, replica))

    @rule(which=two, count=st.sampled_from([0, 1, 2, 4, 30]), replica=two)
    def follow(self, which: int, count: int, replica: int) -> None:
        """Who keeps a copy by changes takes some of them, or a snapshot."""
        self.do(self.readers.follow(self.readers.followers[which], count, replica))

    @precondition(lambda self: self.play.is_idle)
    @rule(
        which=two,
        changes=some_changes,
        replica=two,
        milliseconds=st.sampled_from([1, 1_500]),
    )
    def overtake(self, which: int, changes: list[Change], replica: int, milliseconds: int) -> None:
        """A search is under way while records change: who asks the same then must not be given its answer."""

        async def change() -> None:
            self.corner.clock.milliseconds += milliseconds
            await self.play.update(self.play.changed(changes))

        self.do(self.readers.overtake(self.readers.consumers[which], replica, change))

    @precondition(lambda self: self.play.is_idle and not self.readers.is_compared)
    @rule()
    def compare(self) -> None:
        """Nobody writes: consumers that read to the end have what is there."""
        self.do(self.readers.compare())

    def teardown(self) -> None:
        """Compare once more, and clear up."""
        note(f"identifiers begin with {self.play.identifiers[0][:-1]}")
        try:
            if self.is_sound:
                self.do(self.readers.compare())
        finally:
            self.runner.run(self.play.end())
