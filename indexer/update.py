"""Incremental updates: single records are upserted and deleted in whatever order and as often as they come."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from itertools import islice
from typing import TYPE_CHECKING

from elasticsearch import ApiError, TransportError

from indexer import companies
from indexer.counter import Counter
from indexer.errors import engine_errors
from indexer.events import Pacing, tell
from indexer.intray import Intray
from indexer.pace import Pace
from indexer.place import Place
from indexer.preflight import preflight
from indexer.report import OnProgress, ResourceReport, Stage, Summary, ignore
from indexer.source import Fault
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from indexer.companies import Companies
    from indexer.counter import Item
    from indexer.engine import Engine
    from indexer.source import Feed, Line, Source
    from mappings import Resource

# How long what is written may stay unseen while more keeps coming.
_PUBLISH_SECONDS = 1.0


async def update(engine: Engine, source: Source, *, on_progress: OnProgress = ignore) -> Summary:
    """Apply every envelope of a source, in any order, to what is live.

    A file that an earlier run was killed in is gone on with behind the last line that was made visible. Each resource
    must have been built once. Raises SourceError, EngineError, RefusedError or LockedError.
    """
    with engine_errors():
        await preflight(engine.client, needed_bytes=0, force=False)
        known = await companies.from_index(engine.client, engine.connection.alias(COMPANY))
        with source.changes() as feed:
            run = _Run(engine, known, feed, on_progress)
            await run.over()
            return run.summary


class _Run:
    """One run: a counter per resource that comes up, all fed from one stream of lines."""

    def __init__(self, engine: Engine, known: Companies, feed: Feed, on_progress: OnProgress) -> None:
        self.summary = Summary()
        self._engine = engine
        self._companies = known
        self._feed = feed
        self._place = Place(engine, feed.identity)
        self._on_progress = on_progress
        self._pace = Pace(engine.settings)
        self._pacing = Pacing()
        self._counters: dict[Resource | None, Counter] = {}
        self._published = time.monotonic()
        self._done = 0

    async def over(self) -> None:
        """Take lines until there are none; nothing stays unpublished, whatever ends it."""
        try:
            await self._take()
        except BaseException:
            with suppress(ApiError, TransportError):
                await tell(self._engine, seconds=0.0)
            raise
        await tell(self._engine)

    async def _take(self) -> None:
        done = await self._place.read()
        tray = Intray(islice(self._feed.lines, done, None), self._engine.settings.bulk_documents)
        async with AsyncExitStack() as self._open:
            self._open.callback(tray.close)
            while (batch := await asyncio.to_thread(tray.take)) is not None:
                await self._apply(batch)
                done += len(batch)
                if not batch or time.monotonic() - self._published > _PUBLISH_SECONDS:
                    await self._publish(done, is_idle=not batch)
        await self._place.clear()
        for counter in self._counters.values():
            counter.enter(Stage.UPDATED)

    async def _apply(self, batch: list[tuple[Resource, Line] | Fault]) -> None:
        """Apply a batch resource by resource, companies first, since the others name them."""
        sorted_: dict[Resource | None, list[Item]] = {}
        for item in batch:
            resource, one = (item.resource, item) if isinstance(item, Fault) else item
            sorted_.setdefault(resource, []).append(one)
        for named in [*RESOURCES, None]:
            if named in sorted_:
                await self._counter(named).apply(sorted_[named])

    async def _publish(self, done: int, *, is_idle: bool) -> None:
        for counter in self._counters.values():
            await (counter.rest() if is_idle else counter.publish())
        if done != self._done:
            await self._place.write(done)
            self._done = done
        await tell(self._engine, self._pacing.allows)
        self._published = time.monotonic()

    def _counter(self, resource: Resource | None) -> Counter:
        """Return the counter of a resource, opened when it first comes up."""
        if resource not in self._counters:
            report = ResourceReport(resource.alias if resource else "unnamed", Stage.READING)
            report.bytes_total = self._feed.total
            self.summary.resources.append(report)
            counter = Counter(self._engine, resource, self._companies, report, self._pace)
            counter.on_change = self._show
            self._counters[resource] = counter
            self._open.push_async_callback(counter.close)
        return self._counters[resource]

    def _show(self, report: ResourceReport) -> None:
        report.bytes_read = self._feed.position()
        report.retries = self._pace.retries
        self._on_progress(report)
