"""A source that changes all the time, and what may be visible of its records meanwhile."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from cluster.connection import connect
from indexer import (
    IndexerContext,
    IndexerSettings,
    OnProgress,
    RebuildRequest,
    RunSummary,
    open_source,
    reindex,
    update,
)
from indexer.reporting.report import ignore_progress
from mappings import LISTING, SOLD_LISTING
from tests.contract.world import Envelope, read_source
from tests.simulation.oracle import FeedWalkSpec, PageOracle, ReceivedPage, Record, WalkProgress, shown
from tests.simulation.services import LoadedCluster

FEEDS = (LISTING, SOLD_LISTING)
# A request may share a search that began up to a second before it, and wait for it.
_LINGERS_SECONDS = 5.0
_BATCH = 40  # records
_DELETED = 0.2  # of the records of a batch; as many are new
_REST_SECONDS = 0.5
_SOURCES = ("companies", *(feed.alias for feed in FEEDS))


@dataclass
class VisibleState:
    """A state of one record, and when it may be visible; None means deleted."""

    envelope: Envelope | None
    begins: float
    ends: float = float("inf")
    _forms: dict[tuple[bool, bool], Record] = field(default_factory=dict)

    def shown(self, walk: FeedWalkSpec) -> Record:
        """Return the state as a walk returns it; computed once."""
        form = (walk.underscored, walk.brief)
        if form not in self._forms and self.envelope is not None:
            self._forms[form] = shown(walk, self.envelope)
        return self._forms[form]


@dataclass
class RecordHistory:
    """The states of all records of one resource."""

    spans: dict[str, list[VisibleState]] = field(default_factory=dict)
    lingers: float = _LINGERS_SECONDS

    @classmethod
    def of(cls, envelopes: Iterable[Envelope]) -> RecordHistory:
        """Start with records without an earlier history."""
        return cls({str(one["record"]["PlatformListingId"]): [VisibleState(one, float("-inf"))] for one in envelopes})

    def current(self) -> list[Envelope]:
        last = (spans[-1].envelope for spans in self.spans.values())
        return [envelope for envelope in last if envelope is not None]

    def change(self, changes: dict[str, Envelope | None]) -> None:
        """Record upcoming changes; until they are `settled`, the former states may be visible."""
        now = time.monotonic()
        for name, envelope in changes.items():
            self.spans.setdefault(name, [VisibleState(None, float("-inf"))]).append(VisibleState(envelope, now))

    def settled(self, names: Iterable[str]) -> None:
        """Record that changes were made: the former states are visible for a moment only."""
        ends = time.monotonic() + self.lingers
        for name in names:
            for span in self.spans[name][:-1]:
                span.ends = min(span.ends, ends)

    def seen(self, name: str, begins: float, ends: float) -> list[VisibleState]:
        """Return the states in which a record may have been visible within a period."""
        return [span for span in self.spans.get(name, []) if span.begins <= ends and begins <= span.ends]


@dataclass
class ChangingOracle(PageOracle):
    """Checks the invariants that hold during changes."""

    histories: dict[str, RecordHistory] = field(default_factory=dict)  # by resource

    def page(self, walk: FeedWalkSpec, after: str | None, page: ReceivedPage) -> None:
        """Check a page: ascending, after the cursor, full unless it is the last, each record in a valid state."""
        faults = [] if _rises([after or "", *page.ids]) else ["the order is wrong, or a record is repeated"]
        if (not page.final and len(page.ids) != walk.page_size) or len(page.ids) > walk.page_size:
            faults.append(f"it has {len(page.ids)} records of {walk.page_size} and FinalPage {page.final}")
        now = time.monotonic()
        for name, record in zip(page.ids, page.records, strict=True):
            spans = self.histories[walk.resource].seen(name, page.asked_at, now)
            if _comparable(walk, record) not in [_comparable(walk, one) for one in self._shown(walk, spans)]:
                faults.append(f"{name} is as it never was in this time, or does not belong here")
        if faults:
            self.find(f"{walk} behind {after}: {'; '.join(faults)}")

    def whole(self, walk: FeedWalkSpec, walked: WalkProgress) -> None:
        """Check a walk: unchanged records that matched throughout are present once."""
        history, now = self.histories[walk.resource], time.monotonic()
        steady = {name for name in history.spans if self._is_steady(walk, history.seen(name, walked.began, now))}
        if not _rises(walked.ids):
            self.find(f"{walk} as a whole: the order is wrong, or a record is repeated")
        if missing := steady - set(walked.ids):
            self.find(f"{walk} as a whole: {len(missing)} records are missing, such as {min(missing)}")

    def _is_steady(self, walk: FeedWalkSpec, spans: list[VisibleState]) -> bool:
        [truth] = self.truths
        envelope = spans[0].envelope if len(spans) == 1 else None
        return envelope is not None and truth.matches(walk, envelope)

    def _shown(self, walk: FeedWalkSpec, spans: list[VisibleState]) -> list[Record]:
        """Return the shapes of the states that match a walk."""
        [truth] = self.truths
        return [span.shown(walk) for span in spans if span.envelope is not None and truth.matches(walk, span.envelope)]


def _comparable(walk: FeedWalkSpec, record: Record) -> Record:
    """Return a record without the clock of the indexer."""
    return {name: value for name, value in record.items() if not (walk.brief and name == "last_updated")}


def _rises(ids: list[str]) -> bool:
    return all(earlier < later for earlier, later in pairwise(ids))


@dataclass
class SourceChanger:
    """Changes both feeds through the indexer, and records the changes in their histories first."""

    engine: IndexerContext
    histories: dict[str, RecordHistory]
    companies: list[Envelope]
    chance: random.Random
    rebuild_seconds: float  # from one rebuild to the next
    updates: int = 0
    rebuilds: int = 0
    stopping: bool = False
    work: asyncio.Task[None] | None = None
    _new: int = 0
    _rebuilt: float = field(default_factory=time.monotonic)

    def begin(self) -> asyncio.Task[None]:
        self.work = asyncio.create_task(self._run())
        return self.work

    async def stop(self) -> None:
        """Finish the current change; raise what a change has raised."""
        self.stopping = True
        if self.work is not None:
            await self.work

    async def _run(self) -> None:
        while not self.stopping:
            await self._update()
            self.updates += 1
            if time.monotonic() - self._rebuilt > self.rebuild_seconds:
                await self.rebuild()
                self.rebuilds, self._rebuilt = self.rebuilds + 1, time.monotonic()
            await asyncio.sleep(_REST_SECONDS)

    async def _update(self) -> None:
        batches = {alias: self._batch(history) for alias, history in self.histories.items()}
        lines = {alias: [_line(name, one) for name, one in batch.items()] for alias, batch in batches.items()}
        for alias, batch in batches.items():
            self.histories[alias].change({name: one if "deleted" not in one else None for name, one in batch.items()})
        with tempfile.TemporaryDirectory(prefix="brokerage-soak-") as folder:
            write_lines(Path(folder), lines)
            with open_source(folder) as source:
                _require(await update(self.engine, source))
        for alias, batch in batches.items():
            self.histories[alias].settled(batch)

    async def rebuild(self, on_progress: OnProgress = ignore_progress) -> None:
        """Rebuild both feeds from the current records, which changes nothing."""
        lines = {alias: history.current() for alias, history in self.histories.items()}
        with tempfile.TemporaryDirectory(prefix="brokerage-soak-") as folder:
            write_lines(Path(folder), {"companies": self.companies, **lines})
            with open_source(folder) as source:
                _require(await reindex(self.engine, source, RebuildRequest(FEEDS, on_progress=on_progress)))

    def _batch(self, history: RecordHistory) -> dict[str, Envelope]:
        """Return envelopes by identifier: some change a record, some delete one, some are new."""
        chosen = self.chance.sample(history.current(), _BATCH)
        return dict(self._changed(envelope) for envelope in chosen)

    def _changed(self, envelope: Envelope) -> tuple[str, Envelope]:
        made: dict[str, Any] = copy.deepcopy(envelope)
        made["updated_at"] = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z")
        made["record"]["PublicTitle"] = f"changed at {made['updated_at']}"
        what = self.chance.random()
        if what < _DELETED:
            made["deleted"] = True
        elif what < 2 * _DELETED:
            self._new += 1
            made["record"]["PlatformListingId"] += f"-{self._new}"  # sorts behind the one that it is like
        return str(made["record"]["PlatformListingId"]), made


@asynccontextmanager
async def changing_source(
    stage: LoadedCluster, rebuild_seconds: float = float("inf"), *, seed: int, **settings: Any
) -> AsyncIterator[SourceChanger]:
    """Prepare changes to both feeds, which `begin` begins; at the end the last one is complete."""
    source = {alias: read_source(stage.source / f"{alias}.ndjson") for alias in _SOURCES}
    histories = {feed.alias: RecordHistory.of(source[feed.alias]) for feed in FEEDS}
    settings["dead_letter_folder"] = str(stage.source / "dead-letters")
    chance = random.Random(seed)  # noqa: S311 - the same changes in every run
    async with connect(stage.connection, connections=8, timeout=120) as client:
        context = IndexerContext(client, stage.connection, IndexerSettings(**settings))
        changer = SourceChanger(context, histories, source["companies"], chance, rebuild_seconds)
        try:
            yield changer
        finally:
            await changer.stop()


def _line(name: str, envelope: Envelope) -> Envelope:
    """Return the source's envelope: that of a deletion only names its company."""
    return {**envelope, "record": {"PlatformListingId": name}} if "deleted" in envelope else envelope


def write_lines(folder: Path, lines: Mapping[str, Iterable[Envelope]]) -> None:
    """Write a source folder: envelopes by the alias of their resource."""
    for alias, envelopes in lines.items():
        (folder / f"{alias}.ndjson").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in envelopes))


def _require(summary: RunSummary) -> None:
    if summary.exit_code:
        raise RuntimeError(f"The indexer refused what it was given: {summary}.")
