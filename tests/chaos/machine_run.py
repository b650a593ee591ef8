"""What happens to the records of one run of the machine: changes at their source, and the indexer's work on them."""

import asyncio
import math
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from indexer import rollback
from indexer.documents.companies import EVERY_COMPANY
from mappings import Resource
from mappings.stored_document import is_move
from tests.chaos.machine_environment import MachineEnvironment
from tests.chaos.machine_model import (
    ENDS,
    LONE,
    MachineModel,
    RecordForm,
    States,
    WorkInterval,
    form_of,
    line,
    state_of,
)
from tests.indexer.conftest import assert_nothing_refused, live_ranges
from tests.indexer.expected_state import BEGIN, TeamState
from tests.records import write

Change = tuple[int, RecordForm | str]  # a record's place among the identifiers, and what becomes of it

_MOMENTS = 1_000  # seconds between two changes at the source, so that there is room for late ones


class MachineRun:
    """The records of one run. `witness` is called whenever what is true has changed, or may be about to."""

    def __init__(self, environment: MachineEnvironment, resource: Resource, witness: Callable[[], None]) -> None:
        """Start empty, with the indexer's clock at the start of an unpublished second."""
        self.environment = environment
        environment.clock.milliseconds += 10_000 - environment.clock.milliseconds % 1_000
        environment.examples += 1
        self.identifiers = [f"{environment.examples:06}{end}" for end in ENDS]
        self.truth = MachineModel()
        self.resource = resource
        self._witness = witness
        self._number = 0  # of the change
        self._owner: dict[str, str] = {}
        self._first: dict[str, str] = {}  # the name of each record's first state
        self._served: set[tuple[str, int]] = set()  # the moments of each record that were ever given
        self._mark_clock = 0  # of the last mark that was read, in milliseconds; it may be ahead of the clock
        self._work: asyncio.Task[Any] | None = None
        self._outcome: Callable[[], States] | None = None
        self._finish: Callable[[], None] = self._notice

    @property
    def is_idle(self) -> bool:
        """Whether no work of the indexer is paused."""
        return self._work is None

    @property
    def may_write(self) -> bool:
        """Whether an update could take the write lock now: a rebuild holds it in its last stage only."""
        return self.is_idle or (self._finish == self._swap and not self.environment.gate.has_write_lock)

    def changed(self, changes: Sequence[Change]) -> States:
        """Return the states after some changes at the source."""
        self._number += 1
        found = {self.identifiers[at]: self._state(self.identifiers[at], change) for at, change in changes}
        for name, state in found.items():
            if state.name is not None:
                self._owner[name] = form_of(state.name).company
                self._first.setdefault(name, state.name)
        return found

    def _state(self, name: str, change: RecordForm | str) -> TeamState:
        known = self.truth.model.live.get(name)
        moment = self._moment(name, known, change)
        if isinstance(change, RecordForm):
            return TeamState(moment, change.name(self._number))
        if change == "back" and name in self._first:
            return TeamState(moment, self._first[name])
        if change == "touch" and known is not None:
            return TeamState(moment, known.name, None if known.name else "deleted")
        if change in {"deletion", "late deletion"}:
            return TeamState(moment, None, "deleted")
        form = form_of(known.name) if known and known.name else RecordForm(LONE, "Active")
        return TeamState(moment, form.name(self._number))

    def _moment(self, name: str, known: TeamState | None, change: RecordForm | str) -> int:
        """Return the time of a change at the source: late ones are older than the known state."""
        moment = self._number * _MOMENTS
        if change in {"late", "late deletion"} and known:
            moment = known.moment - 1
        if change == "overtaken":  # older than the change before this one
            moment -= _MOMENTS + 1
        while (name, moment) in self._served:
            moment -= 1
        self._served.add((name, moment))
        return moment

    def _lines(self, states: States) -> list[dict[str, Any]]:
        return [line(self.resource, name, state, self._owner.get(name, LONE)) for name, state in states.items()]

    def _notice(self) -> None:
        self.truth.after = self._outcome() if self._outcome else None
        self._witness()

    async def update(self, changes: States, room: float = math.inf) -> None:
        """Apply updates: all at once while a rebuild is paused, otherwise as many steps as allowed."""
        begin = self.environment.clock.milliseconds
        lines = {self.resource: self._lines(changes)}
        if self.is_idle:
            self._finish = lambda: self.truth.update(changes, self._since(begin))
            await self._begin(
                self.environment.gated.update(lines),
                lambda: self.truth.updated(changes),
                room,
            )
            return
        assert_nothing_refused(await self.environment.bench.update(lines))
        await self._read_mark()
        self.truth.update(changes, self._since(begin))
        self._notice()

    async def rebuild(self, source: States, age: int, room: float) -> None:
        """Rebuild from a full source that is this number of changes old."""
        moment = (self._number - age) * _MOMENTS
        folder = write(self.environment.bench.folder, {self.resource: self._lines(source)})
        modified = int(BEGIN.timestamp()) + moment
        os.utime(folder / f"{self.resource.alias}.ndjson", (modified, modified))
        before = dict(self.truth.model.live)
        # For a record that an earlier source lacked, the envelope is a deletion.
        source = {name: state if state.name else state._replace(reason="deleted") for name, state in source.items()}
        self.truth.model.written = set()
        self._finish = self._swap
        work = self.environment.gated.build_folder([self.resource], force=True, covered=EVERY_COMPANY)
        await self._begin(work, lambda: self.truth.rebuilt(before, source, moment), room)

    async def roll_back(self, room: float, on_done: Callable[[], None]) -> None:
        """Roll back to the previous generation, with the updates since."""

        def finish() -> None:
            self.truth.roll_back(self.truth.rolled_back())
            on_done()

        self._finish = finish
        # From its swap on, which may come long before its end.
        self.truth.forget_clocks()
        await self._begin(
            rollback(self.environment.gated.engine(), self.resource),
            self.truth.rolled_back,
            room,
        )

    async def go_on(self, room: float = math.inf) -> None:
        """Resume the paused work for the allowed number of steps."""
        if self._work is not None:
            self.environment.gate.open(room)
            await self._held()

    async def refresh(self, which: int) -> None:
        """Make writes visible, as periodic refreshes do, shard by shard: in one of them, if there are several."""
        bench = self.environment.bench
        alias = bench.connection.alias(self.resource)
        routings = (await live_ranges(bench, self.resource)).routings
        if routings:
            client, routing = bench.client.options(ignore_status=404), routings[which % len(routings)]
            await client.get(index=alias, id="none", routing=routing, refresh=True)
        else:
            await bench.client.indices.refresh(index=alias)

    async def check(self) -> None:
        """Compare indexed documents and tombstones with the model. Tombstones of moves are tested in tests/indexer."""
        served = await self.environment.bench.served(self.resource)
        found = {name: state_of(document) for name, document in served.items() if not is_move(name)}
        live = self.truth.model.live
        wrong = {name: (found.get(name), live.get(name)) for name in found | live if found.get(name) != live.get(name)}
        assert not wrong, f"indexed and true: {wrong}"

    async def end(self) -> None:
        """End paused work and clean up; the model may be invalid by now."""
        with suppress(Exception):
            await self.go_on()
        is_known = self.is_idle and self.truth.previous is not None
        await self.environment.clear(self.resource, has_previous=is_known)

    def _since(self, begin: int) -> WorkInterval:
        return WorkInterval(begin, max(self.environment.clock.milliseconds, self._mark_clock))

    async def _read_mark(self) -> None:
        self._mark_clock = (await self.environment.bench.mark(self.resource)).clock

    def _swap(self) -> None:
        assert self._outcome is not None
        self.truth.swap(self._outcome(), self._since(self._begun))

    async def _begin(self, work: Coroutine[Any, Any, Any], outcome: Callable[[], States], room: float) -> None:
        self._begun, self._outcome = self.environment.clock.milliseconds, outcome
        self._notice()
        alias = self.environment.bench.connection.alias(self.resource)
        self.environment.gate.begin(alias, room, refreshes=self._finish != self._swap)
        self._work = asyncio.create_task(work)
        await self._held()

    async def _held(self) -> None:
        """Wait until the work is paused or done."""
        assert self._work is not None
        holding = asyncio.create_task(self.environment.gate.is_held.wait())
        await asyncio.wait({self._work, holding}, return_when=asyncio.FIRST_COMPLETED)
        holding.cancel()
        if self._work.done():
            work, self._work = self._work, None
            assert_nothing_refused(work.result())
            await self._read_mark()
            self._finish()
            self._outcome = None
            self._notice()
