"""A candidate that is being built: what writes to it, and the replay of updates into it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from indexer.build.build_checkpoint import BuildCheckpoint, BuildPhase, BuildProgress
from indexer.build.build_job import BuildJob
from indexer.build.graft import Graft
from indexer.changes.replay import ReplayOrigin, replay
from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.control.last_run import RunRecord, record_last_run
from indexer.documents.coverage import ALL_COMPANIES
from indexer.errors import LockedError, ObjectionError, RefusedError
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.bulk import BulkOptions, BulkSender
from indexer.indices.lifecycle import GenerationLifecycle
from indexer.indices.refreshes import refresh_to_seq_nos
from indexer.indices.seq_nos import read_seq_nos, stored_seq_nos
from indexer.lock.distributed_lock import DistributedLock
from indexer.lock.fence import builder_fence
from indexer.reporting.report import RunStage


@dataclass(frozen=True)
class Candidate:
    """A candidate, the progress of its build, and the `fence` through which the holder of `lock` writes to it."""

    context: IndexerContext
    job: BuildJob
    lock: DistributedLock
    limit: AdaptiveLimit
    lifecycle: GenerationLifecycle
    checkpoint: BuildCheckpoint
    progress: BuildProgress
    fence: str

    @property
    def index(self) -> str:
        """The name of the generation."""
        return self.progress.candidate

    async def sender(self, *, replaces_equal: bool = True, index: str | None = None) -> BulkSender:
        """Return a sender that writes only while the fence exists; `replaces_equal` is for equal versions.

        `index` is what is behind the fence, by default the candidate.
        """
        ranges = await self.lifecycle.ranges(index or self.index)
        options = BulkOptions(replaces_equal, require_alias=True, opaque_id=self.lock.opaque_id, ranges=ranges)
        return BulkSender(self.context.client, self.fence, self.limit, self.context.settings, options)

    async def catch_up(self, live: str) -> None:
        """Replay the updates of the live generation since the last replay; later ones are left to the next."""
        reached = await refresh_to_seq_nos(self.context, live)
        is_grafted = self.progress.phase is BuildPhase.GRAFTED
        companies = ALL_COMPANIES if is_grafted else self.progress.own
        origin = ReplayOrigin(live, read_seq_nos(self.progress.follows), companies)
        covered, sender = self.job.companies.coverage, await self.sender()
        await replay(self.context, self.job.resource, origin, sender, self.index, covered=covered)
        self.progress.follows = stored_seq_nos(reached)

    @asynccontextmanager
    async def recorded_refusal(self) -> AsyncIterator[None]:
        """Report a refusal and record it in the checkpoint, so that only a forced run resumes, and raise it."""
        try:
            yield
        except RefusedError as refusal:
            self.job.report.refusal = self.progress.refusal = str(refusal)
            self.progress.is_overridable = isinstance(refusal, ObjectionError)
            await self.checkpoint.write(self.progress)
            raise

    async def finish(self) -> None:
        """Merge the generation and give it its live settings, or graft it into a copy of the live one."""
        self.job.enter_stage(RunStage.FINISHING)
        if not self.progress.others or self.progress.live is None:
            await self.lifecycle.finish(self.index)
        elif self.progress.phase is BuildPhase.PASSED:
            graft = Graft(self.context, self.job, self.lifecycle, self.checkpoint, self._move_fence, self.sender)
            async with self.recorded_refusal():
                await graft.run(self.progress, self.progress.live, partial(self.catch_up, self.progress.live))

    async def _move_fence(self, index: str) -> None:
        """Let only this run write into `index`, and no longer into an earlier one."""
        await builder_fence(self.context, self.lifecycle.alias, self.lock, index)

    async def conclude(self) -> None:
        """Record the run after the swap, and delete what it leaves behind, if no other run has taken over since."""
        report, alias = self.job.report, self.lifecycle.alias
        newest = self.progress.newest
        done = RunRecord("reindex", now_milliseconds(), newest, report.read, report.dead, report.dead_letters)
        await record_last_run(self.context, alias, done)
        with suppress(LockedError):  # what is there may be of the other run
            await self.lock.verify()
            await self.checkpoint.clear()
            await self.lifecycle.prune(await self.lifecycle.generations())
