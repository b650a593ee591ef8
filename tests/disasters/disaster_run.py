"""One run: the indexer's work on its indices, what operators do to them, and what is served."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from elasticsearch import ApiError, NotFoundError

from indexer import begin_new_epochs
from indexer.documents.companies import EVERY_COMPANY, CoverageRequest
from indexer.errors import IndexerError
from mappings import LISTING, Resource
from service.health.monitor import HEALTH_MONITOR
from tests.disasters.disaster_world import ALL, HOME, DisasterSource, DisasterWorld, Served
from tests.records import write
from tests.simulation.control import ControlledReplica, PausableWork
from tests.simulation.history import FEEDS

_PROCESSES = 2  # of the service
_OPERATOR_SECONDS = 10  # that operators take for one step
_SHOWN_CHARACTERS = 300  # of a text from outside


@dataclass
class RunLog:
    """Counts of all runs, and the events of one."""

    counts: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.counts["runs"] += 1
        self.events = []

    def add(self, name: str, detail: object = "") -> None:
        self.counts[name] += 1
        shown = str(detail)[:_SHOWN_CHARACTERS]
        self.events.append(f"{name}: {shown}" if shown else name)


@dataclass
class DisasterRun:
    """The indices of one run, and the processes of the service on them."""

    world: DisasterWorld
    repository: str
    log: RunLog
    sources: dict[Resource, DisasterSource] = field(
        default_factory=lambda: {resource: DisasterSource(resource) for resource in FEEDS}
    )
    processes: list[ControlledReplica] = field(default_factory=list)
    place: str = HOME  # the indices that the service reads
    backups: list[str] = field(default_factory=list)
    closed: dict[Resource, Served] = field(default_factory=dict)  # what was served before
    undeclared: set[Resource] = field(default_factory=set)  # that went back, and whose new epoch has not begun
    steps: list[Callable[[], Awaitable[bool]]] = field(default_factory=list)  # that operators have still to take
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)
    _resource: Resource = LISTING  # of the present work

    def __post_init__(self) -> None:
        self._work = PausableWork(self.world.gate)

    async def start(self) -> None:
        """Replace the indices with empty ones, and start the service."""
        await self.world.restore(HOME, "base", self.pattern)
        self.bench, self.gated = self.world.bench(HOME), self.world.bench(HOME, self.world.gated)
        self.set_clocks()
        await self.restart_service()

    @property
    def pattern(self) -> str:
        return f"{HOME}-*"

    def generations(self, resource: Resource) -> str:
        return f"{self.bench.connection.alias(resource)}-v*"

    @property
    def is_idle(self) -> bool:
        return self._work.is_idle

    def process(self, number: int) -> ControlledReplica:
        """Return a process of the service, which may read foreign indices."""
        return self.world.foreign[self.place] if self.place != HOME else self.processes[number]

    def take_time(self) -> None:
        """Let the time pass that operators take for a step."""
        self.world.clock.milliseconds += _OPERATOR_SECONDS * 1_000

    async def restart_service(self) -> None:
        """Start new processes: the old ones lose what they have in memory."""
        await self._exits.aclose()
        self._exits = AsyncExitStack()
        self.processes = [await self._exits.enter_async_context(self.world.service(HOME)) for _ in range(_PROCESSES)]

    def set_clocks(self, indexer: float = 0.0, service: float = 0.0) -> None:
        self.world.clock.milliseconds = int((time.time() + indexer) * 1_000)
        self.world.service_clock.offset = service

    # The indexer.

    async def update(self, resource: Resource, lines: list[dict[str, Any]], room: float = math.inf) -> bool:
        """Apply updates; return whether they are published. With less room, the work pauses."""
        return await self._begin(self.gated.update({resource: lines}), resource, room, refreshes=True)

    async def rebuild(self, resource: Resource, lines: list[dict[str, Any]], room: float, company: str = "") -> bool:
        """Rebuild a resource from a full source, of all companies by default."""
        write(self.bench.folder, {resource: lines})
        covered = CoverageRequest((company,)) if company else EVERY_COMPANY
        work = self.gated.build_folder([resource], force=True, covered=covered)
        return await self._begin(work, resource, room, refreshes=False)

    async def roll_back(self, resource: Resource, rollback: Coroutine[Any, Any, Any], room: float) -> bool:
        self.undeclared.add(resource)
        return await self._begin(rollback, resource, room, refreshes=True)

    async def _begin(self, work: Coroutine[Any, Any, Any], resource: Resource, room: float, *, refreshes: bool) -> bool:
        self._resource = resource
        alias = self.bench.connection.alias(resource)
        return self._ended(await self._work.begin(work, alias, room, refreshes=refreshes))

    async def go_on(self, room: float = math.inf) -> bool:
        """Resume paused work; return whether it is done and published."""
        return self._ended(await self._work.go_on(room))

    def _ended(self, work: asyncio.Task[Any] | None) -> bool:
        is_done = work is not None and self._is_done(work)
        self.undeclared -= {self._resource} if is_done else set()
        return is_done

    def _is_done(self, work: asyncio.Task[Any]) -> bool:
        """Count the errors of the indexer: it may refuse, it may not be wrong about it."""
        try:
            summary = work.result()
        except IndexerError as error:
            self.log.add(f"indexer, {type(error).__name__}", error)
            return False
        code = getattr(summary, "exit_code", 0)
        self.log.add("indexer, " + ("done" if code == 0 else f"exit code {code}"), summary if code else "")
        return code == 0

    # What is served.

    async def served(self, resource: Resource) -> Served | None:
        """Return what is served at the place that the service reads; None if there is nothing."""
        if self.place == HOME and resource in self.closed:
            return self.closed[resource]
        return await self.world.served(self.place, resource)

    # What befalls the indices.

    async def back_up(self) -> None:
        name = f"backup-{len(self.backups)}"
        await self.world.back_up(self.repository, name, self.pattern)
        self.backups.append(name)

    async def lose(self, pattern: str) -> None:
        await self.world.delete(pattern)
        left = await self.world.admin.indices.get(index=self.pattern, expand_wildcards="all")
        begins = {resource: f"{self.bench.connection.alias(resource)}-v" for resource in self.closed}
        for resource, begin in begins.items():
            if not any(name.startswith(begin) for name in left):
                del self.closed[resource]

    async def restore(self, backup: str, pattern: str) -> bool:
        await self.lose(pattern)
        await self.world.restore(self.repository, backup, pattern)
        self.undeclared |= set(FEEDS)
        return True

    async def reindex(self) -> bool:
        """Build everything again from the source, as after a loss; return whether that was possible."""
        self.undeclared |= set(FEEDS)
        write(self.bench.folder, {resource: source.full() for resource, source in self.sources.items()})
        try:
            await self.world.store_keys(self.bench.connection)
            summary = await self.bench.build_folder(ALL, force=True)
        except (IndexerError, ApiError) as error:
            self.log.add(f"reindex, {type(error).__name__}", error)
            return False
        return summary.exit_code == 0

    async def begin_new_epochs(self) -> bool:
        """Run `brokerage index restored`; return whether that was possible."""
        try:
            await begin_new_epochs(self.bench.engine())
        except IndexerError as error:
            self.log.add(f"index restored, {type(error).__name__}", error)
            return False
        self.undeclared.clear()
        return True

    async def look(self) -> None:
        """Let the service look at its indices, as it does periodically, once their shards have started."""
        with suppress(ApiError):
            await self.world.admin.cluster.health(index=self.pattern, wait_for_status="yellow", timeout="60s")
        for process in self.processes:
            await process.http.server.app[HEALTH_MONITOR].check_now()  # type: ignore[attr-defined]

    async def close(self, resource: Resource) -> None:
        if (served := await self.served(resource)) is not None:
            with suppress(ApiError):
                await self.world.admin.indices.close(index=self.bench.connection.alias(resource))
                self.closed[resource] = served

    async def open(self) -> None:
        """Open closed indices, those that were closed when they were backed up included."""
        if names := list(await self.world.admin.indices.get(index=self.pattern, expand_wildcards="closed")):
            await self.world.admin.indices.open(index=names)
        self.closed = {}

    async def fill_disk(self, *, is_full: bool) -> None:
        """Block writes as Elasticsearch does at the flood stage, or end that."""
        block = {"index.blocks.read_only_allow_delete": True if is_full else None}
        with suppress(NotFoundError):  # nothing is there
            await self.world.admin.indices.put_settings(index=self.pattern, settings=block)

    async def end(self) -> None:
        with suppress(Exception):
            await self.go_on()
        await self._exits.aclose()
        await self.world.delete(self.pattern)
        if self.backups:
            await self.world.admin.snapshot.delete_repository(name=self.repository)
            shutil.rmtree(self.world.backups / self.repository)
