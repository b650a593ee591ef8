"""The command of a host that finds a shared build: it helps until the build has ended, and ends like it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import structs

from indexer.build.hosts.build_terms import require_same
from indexer.build.hosts.membership import Membership, lost_coordinator
from indexer.build.hosts.shared_documents import BUILD_ID, LOCK_ID, BuildOutcome, SharedBuild, unpack
from indexer.build.hosts.shared_run import POLL_SECONDS
from indexer.build.hosts.shared_store import SharedStore
from indexer.build.parallel.loader_pool import LoaderPool
from indexer.errors import IndexerError
from indexer.indices.cluster_clock import ClockWatch
from indexer.lock.distributed_lock import HOLDER_TIMEOUT_SECONDS
from indexer.lock.lock_store import LockState
from indexer.reporting.report import ResourceReport, RunStage

if TYPE_CHECKING:
    from indexer.build.hosts.build_terms import BuildTerms
    from indexer.build.parallel.messages import LoadOrder
    from indexer.context import IndexerContext
    from indexer.reporting.report import OnProgress, RunSummary
    from indexer.source.line_ranges import FileRange
    from indexer.source.lines import Source


class BuildFound(Exception):
    """The holder of the lock shares its build, which this command can help."""

    def __init__(self, helper: Helper, build: SharedBuild) -> None:
        super().__init__(build.coordinator)
        self._helper = helper
        self._build = build

    async def help(self) -> RunSummary:
        """Load ranges until the build has ended; return its summary, or raise IndexerError if it failed."""
        return await self._helper.help(self._build)


@dataclass
class Helper:
    """A command with `terms` of its own that helps a build with so many processes."""

    context: IndexerContext
    source: Source
    terms: BuildTerms
    processes: int
    on_progress: OnProgress
    _reports: dict[str, ResourceReport] = field(default_factory=dict)

    async def check(self, token: int) -> None:
        """Raise BuildFound if the holder of the lock with this token shares its build, SourceError if it is another."""
        build = await self._shared(token)
        if build is not None and not build.outcome:
            require_same(self.terms, build.terms, build.coordinator)
            raise BuildFound(self, build)

    async def help(self, build: SharedBuild) -> RunSummary:
        """Do what `BuildFound.help` says."""
        await ClockWatch(self.context).check()
        settings = replace(self.context.settings, **structs.asdict(build.terms.limits))
        context = replace(self.context, settings=settings)
        while not build.outcome:
            require_same(self.terms, build.terms, build.coordinator)
            self._show_wait(build)
            async with LoaderPool(context, self.processes) as pool:
                store = SharedStore(context)
                ended = await Membership(store, self.source, build, pool, self._count).serve()
            build = ended or await self._successor(build)
        return self._ended(build)

    async def _successor(self, build: SharedBuild) -> SharedBuild:
        """Return the build of the run that has taken over; raise IndexerError if none shares it in time."""
        end = time.monotonic() + HOLDER_TIMEOUT_SECONDS
        while time.monotonic() < end:
            if (found := await self._shared()) is not None:
                return found
            await asyncio.sleep(POLL_SECONDS)
        raise lost_coordinator(build)

    async def _shared(self, token: int | None = None) -> SharedBuild | None:
        """Return the build of the lock's holder, or the last one that has ended since; None if it is not shared."""
        lock, found = await SharedStore(self.context).read([LOCK_ID, BUILD_ID])
        if lock is None or found is None:
            return None
        state, build = lock.read(LockState), found.read(SharedBuild)
        is_present = build.token == state.token and token in {None, state.token}
        return build if is_present and (build.outcome or state.holder is not None) else None

    def _show_wait(self, build: SharedBuild) -> None:
        report = self._report(next(iter(self.terms.files)))
        report.note = f"Helps {build.coordinator}, and waits for ranges."
        self.on_progress(report)

    def _count(self, order: LoadOrder, lines: FileRange, read: int) -> None:
        report = self._report(order.resource.alias)
        report.stage, report.note = RunStage.READING, None
        report.read += read
        report.bytes_read += lines.position - lines.start
        self.on_progress(report)

    def _report(self, alias: str) -> ResourceReport:
        total = self.terms.files[alias].size
        return self._reports.setdefault(alias, ResourceReport(alias, bytes_total=total))

    def _ended(self, build: SharedBuild) -> RunSummary:
        outcome = unpack(build.outcome, BuildOutcome)
        if outcome.summary is None:
            failure = IndexerError(f"The build of {build.coordinator} has failed: {outcome.error}")
            failure.exit_code = outcome.exit_code
            raise failure
        outcome.summary.coordinator = build.coordinator
        outcome.summary.helped_lines = sum(report.read for report in self._reports.values())
        return outcome.summary
