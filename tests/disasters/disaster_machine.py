"""A state machine of disasters. A lie: a consumer believes that its copy is current, and what is served differs."""

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from indexer import rollback
from tests.disasters.disaster_game import DisasterGame
from tests.disasters.disaster_run import DisasterRun, RunLog
from tests.disasters.disaster_world import FOREIGN, HOME, RECORDS, DisasterWorld
from tests.simulation.history import FEEDS
from tests.simulation.model import CHILDREN, FORMS, LONE, Change

_BACKUPS = 3
_REBUILDS = 2  # they cost as much as all the rest
_MINUTES, _HOUR, _DAYS = 100.0, 3_600.0, 400 * 86_400.0

RESOURCES = {resource.alias: resource for resource in FEEDS}
aliases = st.sampled_from(["listings", "listings", "sold_listings"])
records = st.integers(0, RECORDS - 1)
one_change = st.tuples(records, st.one_of(st.sampled_from(FORMS), st.sampled_from(["deletion", "touch"])))
some_changes = st.lists(one_change, min_size=1, max_size=4, unique_by=lambda change: change[0])
# How many steps the indexer may take before it pauses.
rooms = st.sampled_from([math.inf, math.inf, math.inf, 0, 1, 2, 3])
scopes = st.sampled_from(["everything", "one resource", "control"])
companies = st.sampled_from(["", CHILDREN[0], LONE])
some_readers = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)
numbers, two = st.integers(0, 11), st.integers(0, 1)
# Wrong by more than BROKERAGE_CLOCK_SECONDS, the indexer refuses to write; by less, it writes.
seconds = st.sampled_from([0.0, 2.0, -2.0, _MINUTES, -_MINUTES, _HOUR, -_HOUR, _DAYS, -_DAYS])


class DisasterMachine(RuleBasedStateMachine):
    """One run. The test sets the class attributes."""

    world: ClassVar[DisasterWorld]
    runner: ClassVar[asyncio.Runner]
    log: ClassVar[RunLog] = RunLog()
    game: DisasterGame
    rebuilds = 0
    is_sound = False
    began: float
    steps = 0

    @property
    def run(self) -> DisasterRun:
        return self.game.run

    def do(self, name: str, work: Coroutine[Any, Any, Any], detail: object = "") -> Any:
        """Run a step and count it; if it fails, that is printed, and the run is not settled at its end."""
        self.is_sound = False
        self.steps += 1
        self.log.counts["steps"] += name not in {"run", "settled"}
        self.log.add(name, detail)
        try:
            result = self.runner.run(work)
        except Exception as error:
            self._print(f"{type(error).__name__}: {error}" + "".join(f"\n  {event}" for event in self.log.events))
            raise
        self.game.is_unseen = self.game.is_unseen or name not in {"read", "update", "service restarted"}
        self.is_sound = True
        return result

    @initialize(given=st.lists(st.sampled_from(FORMS), min_size=4, max_size=RECORDS))
    def start(self, given: list[Any]) -> None:
        self.game, self.began = DisasterGame(self.world, self.log), time.monotonic()
        self.do("run", self.game.start(list(enumerate(given))))

    @property
    def may_write(self) -> bool:
        return self.run.is_idle

    @precondition(lambda self: self.may_write)
    @rule(alias=aliases, changes=some_changes, room=rooms)
    def update(self, alias: str, changes: list[tuple[int, Change]], room: float) -> None:
        lines = self.run.sources[RESOURCES[alias]].changed(changes)
        self.do("update", self.run.update(RESOURCES[alias], lines, room), f"{alias} {changes} {room}")

    @precondition(lambda self: self.may_write)
    @rule(alias=aliases)
    def send_again(self, alias: str) -> None:
        """Send the present state of every record, as sources do after a restore."""
        lines = self.run.sources[RESOURCES[alias]].full()
        self.do("everything sent again", self.run.update(RESOURCES[alias], lines), alias)

    @precondition(lambda self: self.may_write and self.rebuilds < _REBUILDS)
    @rule(alias=aliases, lacking=st.frozensets(records, max_size=3), room=rooms, company=companies)
    def rebuild(self, alias: str, lacking: frozenset[int], room: float, company: str) -> None:
        """Rebuild from a full source, of all companies or one, that lacks some records."""
        self.rebuilds += 1
        lines = self.run.sources[RESOURCES[alias]].full(lacking, company)
        work = self.run.rebuild(RESOURCES[alias], lines, room, company)
        name = "rebuild of a company" if company else "rebuild"
        self.do(name, work, f"{alias} {company} lacking {sorted(lacking)} {room}")

    @precondition(lambda self: self.may_write and self.rebuilds)
    @rule(alias=aliases, room=rooms)
    def roll_back(self, alias: str, room: float) -> None:
        work = rollback(self.run.gated.engine(), RESOURCES[alias])
        self.do("rollback", self.run.roll_back(RESOURCES[alias], work, room), f"{alias} {room}")

    @precondition(lambda self: not self.run.is_idle)
    @rule(room=st.sampled_from([1, 1, 2, math.inf]))
    def go_on(self, room: float) -> None:
        self.do("indexer resumed", self.run.go_on(room), room)

    @rule(which=some_readers, pages=st.sampled_from([1, 2, math.inf, math.inf]), process=two)
    def read(self, which: list[int], pages: float, process: int) -> None:
        """Let consumers read; one that believes to be current must be."""
        for number in which:
            self.do("read", self.game.read(number, pages, process), f"{number} {pages} {process}")

    @precondition(lambda self: self.may_write)
    @rule(alias=aliases, changes=some_changes, which=some_readers, process=two)
    def publish(self, alias: str, changes: list[tuple[int, Change]], which: list[int], process: int) -> None:
        self.update(alias, changes, math.inf)
        self.read(which, math.inf, process)

    # Disasters.

    @precondition(lambda self: len(self.run.backups) < _BACKUPS and not self.run.steps)
    @rule()
    def back_up(self) -> None:
        """Take a backup, perhaps while the indexer is at work."""
        self.do("backup", self.run.back_up())

    @precondition(lambda self: self.run.backups and not self.run.steps)
    @rule(which=numbers, scope=scopes, alias=aliases, is_declared=st.booleans())
    def restore(self, which: int, scope: str, alias: str, is_declared: bool) -> None:
        """Lose indices; operators restore them step by step."""
        backup = self.run.backups[which % len(self.run.backups)]
        work = self.game.restore(backup, scope, RESOURCES[alias], is_declared=is_declared)
        self.do(f"restore of {scope}", work, f"{backup} {alias} {is_declared}")

    @precondition(lambda self: not self.run.steps and self.rebuilds < _REBUILDS)
    @rule()
    def lose_everything(self) -> None:
        """Lose all indices; operators build them again from the source."""
        self.rebuilds += 1
        self.do("empty cluster", self.game.lose_everything())

    @precondition(lambda self: self.run.steps)
    @rule()
    def operator_step(self) -> None:
        self.do("operator's step", self.game.step())

    @rule(indexer=seconds, service=seconds)
    def set_clocks(self, indexer: float, service: float) -> None:
        """Set the clocks of indexer and service to wrong times, or right."""
        self.run.set_clocks(indexer, service)
        self.do(f"clocks {_signed(indexer)} {_signed(service)}", self.game.pass_by(), f"{indexer} {service}")

    @precondition(lambda self: not self.run.steps)
    @rule(place=st.sampled_from([HOME, *FOREIGN]))
    def move_service(self, place: str) -> None:
        """Point the service at foreign indices, or back."""
        self.do("service at " + place, self.game.move_service(place))

    @precondition(lambda self: self.game.is_unseen)
    @rule()
    def restart_service(self) -> None:
        self.do("service restarted", self.run.restart_service())
        self.game.is_unseen = False  # a new process looks first

    @rule(alias=aliases)
    def close(self, alias: str) -> None:
        self.do("index closed", self.run.close(RESOURCES[alias]), alias)

    @precondition(lambda self: self.run.closed)
    @rule()
    def open(self) -> None:
        self.do("index opened", self.run.open())

    @rule(is_full=st.booleans())
    def fill_disk(self, is_full: bool) -> None:
        self.do("disk full" if is_full else "disk has room", self.run.fill_disk(is_full=is_full))

    @rule()
    def settle(self) -> None:
        """End all disasters: everyone must become current and be right about it."""
        self.do("settled", self.game.settle())

    def teardown(self) -> None:
        try:
            if self.is_sound:
                self.do("settled", self.game.settle())
        finally:
            self.runner.run(self.game.end())
        if self.is_sound:
            self._print("no lie")

    def _print(self, outcome: str) -> None:
        seconds = time.monotonic() - self.began
        print(f"run {self.log.counts['runs']}: {self.steps} steps, {seconds:.1f} s: {outcome}", flush=True)


def _signed(seconds: float) -> str:
    return "0" if not seconds else "+" if seconds > 0 else "-"
