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
from tests.indexer.conftest import assert_nothing_refused, live_ranges
from tests.indexer.expected_state import BEGIN, TeamState
from tests.records import write
from tests.simulation.control import PausableWork
from tests.simulation.model import ENDS, MOMENTS, Change, MachineModel, SourceRecords, States, WorkInterval, state_of


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
        self.source = SourceRecords(resource, self._known)
        self._witness = witness
        self._mark_clock = 0  # of the last mark that was read, in milliseconds; it may be ahead of the clock
        self._work = PausableWork(environment.gate)
        self._outcome: Callable[[], States] | None = None
        self._finish: Callable[[], None] = self._notice

    def _known(self, name: str) -> TeamState | None:
        return self.truth.model.live.get(name)

    @property
    def is_idle(self) -> bool:
        return self._work.is_idle

    @property
    def may_write(self) -> bool:
        """Whether an update could take the write lock now: a rebuild holds it in its last stage only."""
        return self.is_idle or (self._finish == self._swap and not self.environment.gate.has_write_lock)

    def changed(self, changes: Sequence[tuple[int, Change]]) -> States:
        """Return the states after some changes at the source, given by a record's place among the identifiers."""
        return self.source.changed({self.identifiers[at]: change for at, change in changes})

    def _notice(self) -> None:
        self.truth.after = self._outcome() if self._outcome else None
        self._witness()

    async def update(self, changes: States, room: float = math.inf) -> None:
        """Apply updates: all at once while a rebuild is paused, otherwise as many steps as allowed."""
        begin = self.environment.clock.milliseconds
        lines = {self.resource: self.source.lines(changes)}
        if self.is_idle:
            self._finish = lambda: self.truth.update(changes, self._since(begin))
            await self._begin(self.environment.gated.update(lines), lambda: self.truth.updated(changes), room)
            return
        assert_nothing_refused(await self.environment.bench.update(lines))
        await self._read_mark()
        self.truth.update(changes, self._since(begin))
        self._notice()

    async def rebuild(self, source: States, age: int, room: float) -> None:
        """Rebuild from a full source that is this number of changes old."""
        moment = (self.source.number - age) * MOMENTS
        folder = write(self.environment.bench.folder, {self.resource: self.source.lines(source)})
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
        await self._begin(rollback(self.environment.gated.engine(), self.resource), self.truth.rolled_back, room)

    async def go_on(self, room: float = math.inf) -> None:
        """Resume the paused work for the allowed number of steps."""
        await self._ended(await self._work.go_on(room))

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
        refreshes = self._finish != self._swap
        await self._ended(await self._work.begin(work, alias, room, refreshes=refreshes))

    async def _ended(self, work: asyncio.Task[Any] | None) -> None:
        if work is not None:
            assert_nothing_refused(work.result())
            await self._read_mark()
            self._finish()
            self._outcome = None
            self._notice()
