"""A candidate: the generation that a build writes, from its beginning or its checkpoint to the swap.

A build that was interrupted resumes if everything that it is made of is as it was. Updates of the live generation since
it began are replayed into the candidate. Before a swap each candidate is brought up to date and stamped. Then all
aliases move in one request. Its shards are cut so that they weigh the same, by a sample of the source.
"""

import asyncio
import hashlib
import heapq
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

import orjson

from cluster.client import gather_or_cancel
from cluster.control_index import Mark
from cluster.terminal import counted
from indexer.bulk import AdaptiveLimit, BulkOptions, BulkSender, bulk_sender
from indexer.changes.replay import ReplayOrigin, assign_pending_stamps, replay, reset_stale_stamps
from indexer.changes.stamps import first_generation_mark
from indexer.changes.write_session import WriteSession, open_write_session
from indexer.clock import ClockWatch, now_microseconds, now_milliseconds
from indexer.control import MarkStore, RunRecord, StoredIdentities, read_all_identities, record_last_run
from indexer.documents.companies import ALL_COMPANIES, Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.errors import LockedError, ObjectionError, RefusedError
from indexer.generations.checkpoint import BuildBasis, BuildCheckpoint, BuildPhase, BuildProgress
from indexer.generations.lifecycle import (
    AliasMove,
    GenerationLifecycle,
    Generations,
    has_all_shards,
    read_seq_nos,
    refresh_to_seq_nos,
    stored_seq_nos,
)
from indexer.lock import DistributedLock, builder_fence
from indexer.reporting.report import DeadLetters, OnProgress, ResourceReport, RunStage, excess_dead_letters
from indexer.settings import AUTO, IndexerContext, IndexerSettings, ShardRequest
from indexer.source.lines import Source, SourceLine
from mappings import Resource
from mappings.shards import INDEX_SHARE, MAX_SHARDS, ONE_SHARD, ShardRanges, cut_evenly
from mappings.stored_document import feed_key


@dataclass(frozen=True)
class BuildJob:
    """What is built. `built` are the indices of the candidates that the run has built before, by alias."""

    resource: Resource
    source: Source
    companies: Companies
    report: ResourceReport
    dead_letters: DeadLetters
    dead_letter_limit: float
    is_forced: bool
    on_progress: OnProgress
    questions_first_loads: bool = False
    built: dict[str, str] = field(default_factory=dict)

    def basis(self, live: str | None, epoch_id: str, fingerprint: str) -> BuildBasis:
        known = [sorted(self.companies.keys), sorted(self.companies.keys_by_numeric_id.items())]
        companies = hashlib.sha256(orjson.dumps(known)).hexdigest()[:16]  # they decide what lines are valid
        covered = self.companies.coverage.companies
        keys = None if covered is None else sorted(covered)
        return BuildBasis(self.source.identity(self.resource), live, epoch_id, fingerprint, companies, keys)

    def resume(self, progress: BuildProgress) -> None:
        report, letters, saved = self.report, self.dead_letters, progress.letters
        report.resumed_at = progress.line
        report.resume(progress.reported.counts)
        letters.resume(saved)
        letters.update_report(report)
        report.warnings = list(progress.reported.warnings)
        report.vanished_companies = progress.reported.vanished_companies
        if saved.lines and not Path(saved.path).is_file():
            report.warnings.append(f"the first {counted(len(saved.lines), 'bad record')}: {saved.path} on another host")
        report.is_taken = progress.refusal is not None
        progress.refusal = None

    def enter_stage(self, stage: RunStage) -> None:
        self.report.stage = stage
        self.report_progress()

    def report_progress(self) -> None:
        self.on_progress(self.report)

    def report_wait(self, note: str) -> None:
        self.report.note = note
        self.report_progress()

    def excess_dead_letters(self, *, at_end: bool) -> ObjectionError | None:
        """Update the count of dead letters; return the objection if there are too many."""
        self.dead_letters.update_report(self.report)
        excess = excess_dead_letters(self.report, self.dead_letter_limit, at_end=at_end)
        return None if excess is None else ObjectionError(excess)

    def refuse(self, refusal: RefusedError) -> None:
        """Raise a refusal, or record it if it is an objection that force overrides."""
        if not isinstance(refusal, ObjectionError):
            raise refusal
        if not self.is_forced:
            raise ObjectionError(f"{refusal}. Nothing was switched.")
        if str(refusal) not in self.report.overridden:
            self.report.overridden.append(str(refusal))


Gate: TypeAlias = "Callable[[Candidate], Awaitable[RefusedError | None]]"


@dataclass(frozen=True)
class Candidate:
    """A candidate, the progress of its build, and the `fence` through which the holder of `lock` writes to it.

    `ranges` are those of its shards.
    """

    context: IndexerContext
    job: BuildJob
    lock: DistributedLock
    limit: AdaptiveLimit
    lifecycle: GenerationLifecycle
    checkpoint: BuildCheckpoint
    progress: BuildProgress
    ranges: ShardRanges
    fence: str

    @classmethod
    async def opened(cls, context: IndexerContext, lock: DistributedLock, job: BuildJob) -> Self:
        """Return the candidate of an interrupted build that can resume, or a new one; write to it from now on."""
        lifecycle = GenerationLifecycle(context, job.resource)
        checkpoint = BuildCheckpoint(context, lifecycle.alias)
        reads = lifecycle.generations(), checkpoint.read(), MarkStore(context, lifecycle.alias).read()
        present, earlier, mark = await asyncio.gather(*reads)
        start = BuildStart(context, job, lifecycle, present, mark)
        if checkpoint.is_foreign:
            job.report.warnings.append("an interrupted build of another version of this program is built again")
        if earlier is not None and await start.can_resume(earlier):
            job.resume(earlier)
            progress, ranges = earlier, present.ranges(earlier.candidate)
        else:
            progress, ranges = await start.begin()
            await checkpoint.write(progress)
        fence = await builder_fence(context, lifecycle.alias, lock, progress.candidate)
        job.report.generation, job.report.previous = progress.candidate, progress.live
        job.report.covers, job.report.others = str(job.companies.coverage), progress.others
        return cls(context, job, lock, AdaptiveLimit(context.settings), lifecycle, checkpoint, progress, ranges, fence)

    @property
    def index(self) -> str:
        return self.progress.candidate

    def sender(self, *, replaces_equal: bool = True) -> BulkSender:
        """Return a sender that writes only while the fence exists; `replaces_equal` is for equal versions."""
        options = BulkOptions(replaces_equal, require_alias=True, opaque_id=self.lock.opaque_id, ranges=self.ranges)
        return bulk_sender(self.context, self.fence, options, self.limit)

    async def catch_up(self, live: str) -> None:
        """Replay the updates of the live generation since the last replay; later ones are left to the next."""
        reached = await refresh_to_seq_nos(self.context.cluster, live)
        is_copy = self.progress.phase is BuildPhase.COPIED
        companies = ALL_COMPANIES if is_copy else self.progress.own
        origin = ReplayOrigin(live, read_seq_nos(self.progress.follows), companies)
        covered = self.job.companies.coverage
        await replay(self.context, self.job.resource, origin, self.sender(), self.index, covered=covered)
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

    async def pass_gates(self, gates: Sequence[Gate]) -> None:
        """Raise the first refusal of the gates that force does not override, if they were not passed before.

        What an earlier run has overridden does not pass without force.
        """
        reported = self.progress.reported
        if self.progress.phase is not BuildPhase.LOADED:
            for objection in reported.overridden:
                self.job.refuse(ObjectionError(objection))
            return
        for gate in gates:
            if (refusal := await gate(self)) is not None:
                self.job.refuse(refusal)
        await self.save(BuildPhase.PASSED)

    async def save(self, phase: BuildPhase) -> None:
        report, reported = self.job.report, self.progress.reported
        self.progress.phase, reported.counts = phase, report.counts
        reported.overridden, reported.warnings = list(report.overridden), list(report.warnings)
        reported.vanished_companies = report.vanished_companies
        await self.checkpoint.write(self.progress)

    async def conclude(self) -> None:
        """Record the run after the swap, and delete what it leaves behind, if no other run has taken over since."""
        report, newest = self.job.report, self.progress.reported.newest
        done = RunRecord("reindex", now_milliseconds(), newest, report.read, report.dead, report.dead_letters)
        await record_last_run(self.context, self.lifecycle.alias, done)
        with suppress(LockedError):  # what is there may be of the other run
            await self.lock.verify()
            await self.checkpoint.clear()
            await self.lifecycle.prune(await self.lifecycle.generations())


@dataclass(frozen=True)
class BuildStart:
    """The start of a build over what is `present`; `mark` is what is published of it."""

    context: IndexerContext
    job: BuildJob
    lifecycle: GenerationLifecycle
    present: Generations
    mark: Mark | None

    @property
    def basis(self) -> BuildBasis:
        return self.job.basis(self.present.live, self.mark.epoch_id if self.mark else "", self.lifecycle.fingerprint)

    async def can_resume(self, earlier: BuildProgress) -> bool:
        """Whether an earlier build can resume; if not, its remains are deleted."""
        job, candidate = self.job, earlier.candidate
        if candidate not in self.present.metas or candidate == self.present.live:
            return False
        is_final = earlier.refusal is not None and not (earlier.is_overridable and job.is_forced)
        obstacle = "its refusal cannot be overridden" if is_final else earlier.basis.obstacle(self.basis)
        if obstacle is None:
            if await has_all_shards(self.context, candidate):
                return True
            job.report.warnings.append(f"{candidate} is built again from the beginning: a shard of it is on no node")
        elif earlier.refusal and job.is_forced:
            job.report.warnings.append(f"{candidate} was refused and is not taken but built again: {obstacle}")
        for index in filter(None, [candidate, earlier.copy]):
            await self.lifecycle.delete_candidate(index)
        return False

    async def begin(self) -> tuple[BuildProgress, ShardRanges]:
        """Create the next generation; raise RefusedError if it could not have the records of other companies."""
        live, job, others, follows = self.present.live, self.job, 0, [-1]
        if live is not None:
            follows = await refresh_to_seq_nos(self.context.cluster, live)
            others = await self._count_others(live)
        ranges = await self._ranges(others)
        index = await self.lifecycle.create(self.present, self.mark.generation if self.mark else None, ranges)
        taken_at = min(job.source.taken_at(job.resource), now_microseconds())
        letters = job.dead_letters.save()
        return BuildProgress(index, self.basis, taken_at, letters, stored_seq_nos(follows), others), ranges

    async def _count_others(self, live: str) -> int:
        """Return how many live records of companies that the build does not cover a copy of the index has to keep."""
        coverage = self.job.companies.coverage
        others = 0 if coverage.companies is None else await self.lifecycle.count(live, coverage.others_query)
        if others and self.present.fingerprint(live) != self.lifecycle.fingerprint:
            raise RefusedError(
                f"{live} has a different schema than this program declares, and {others:,} records of companies that "
                f"this run does not cover ({coverage}): load all companies together, with --all-companies. Nothing was "
                "switched."
            )
        return others

    async def _ranges(self, others: int) -> ShardRanges:
        """Return the ranges of the candidate: if a copy of the live index is to take its place, those that it has."""
        job, settings = self.job, self.context.settings
        if others and self.present.live:
            return self.present.ranges(self.present.live)
        if self.context.shards.shards(job.resource.alias) == 1:
            return ONE_SHARD
        return await asyncio.to_thread(choose_ranges, job.source, job.resource, job.companies, settings)


async def swap_together(candidates: Sequence[Candidate]) -> None:
    """Swap in all candidates, which have passed the gates, or none of them; then publish their marks.

    Updates of a resource wait from when its write session opens until the swap. The largest changes are stamped first,
    so that the other resources wait for them without a lock. Raises RefusedError, LockedError or ClockError.
    """
    async with AsyncExitStack() as stack:
        swaps = []
        for candidate in sorted(candidates, key=lambda candidate: -candidate.job.report.changes):
            swap = CandidateSwap(candidate)
            async with candidate.recorded_refusal():
                await swap.stage(stack)
            swaps.append(swap)
        await candidates[0].lock.verify()
        clock = ClockWatch(candidates[0].context)
        if any(swap.session is None for swap in swaps):
            await clock.check()
        context = candidates[0].context
        identities = await read_all_identities(
            context, [context.connection.control_index, *(candidate.index for candidate in candidates)]
        )
        first, *others = await gather_or_cancel(*(swap.ready(clock, identities) for swap in swaps))
        await swaps[0].candidate.lifecycle.swap(first.index, first.live, first.fences, together=others)
        await gather_or_cancel(*(swap.publish() for swap in swaps))


@dataclass
class CandidateSwap:
    """The swap of one candidate: staged under the write lock of its resource, which is held until the swap."""

    candidate: Candidate
    session: WriteSession | None = None  # None for a first generation

    async def stage(self, stack: AsyncExitStack) -> None:
        """Replay the latest updates and stamp what is new; the session is closed with `stack`."""
        job, live = self.candidate.job, self.candidate.progress.live
        job.enter_stage(RunStage.SWAPPING)
        if live is None:
            await self._count_live()
            return
        await self.candidate.catch_up(live)
        opened = open_write_session(self.candidate.context, job.resource, job.report_wait)
        self.session = await stack.enter_async_context(opened)
        if self.session.live != live:
            raise RefusedError(f"{live} is no longer live: {self.candidate.index} did not go live.")
        await self.candidate.catch_up(live)
        await self.candidate.lifecycle.refresh(self.candidate.index)
        await self.session.publish_forgotten(self.candidate.progress.forgotten)
        await self._stamp(self.session)
        await self._count_live(succeeds=self.session.identity)

    async def _stamp(self, session: WriteSession) -> None:
        """Stamp above the mark; stamps of an interrupted run are assigned again."""
        candidate, progress, context = self.candidate, self.candidate.progress, self.candidate.context
        sender = candidate.sender()
        if progress.stamped_above is None:
            progress.stamped_above = session.stamps.sequence
            await candidate.checkpoint.write(progress)
        else:
            await reset_stale_stamps(context, candidate.index, session.live, sender, progress.stamped_above)
            await candidate.lifecycle.refresh(candidate.index)
        await assign_pending_stamps(context, candidate.index, session, sender)

    async def _count_live(self, succeeds: str = "") -> None:
        """Count the documents that go live, and record the `_seq_no` up to which all writes are the build's own.

        `succeeds` is the identity of the index that it replaces, which stays in the mark until the next publication.
        """
        index, report, lifecycle = self.candidate.index, self.candidate.job.report, self.candidate.lifecycle
        built_to = stored_seq_nos(await refresh_to_seq_nos(self.candidate.context.cluster, index))
        noting = lifecycle.update_meta(index, built_to=built_to, succeeds=succeeds)
        _, (report.documents, report.tombstones) = await asyncio.gather(noting, lifecycle.count_live(index))

    async def publish(self) -> None:
        with suppress(LockedError):  # another run has published a later mark since the swap
            await self._publish()

    async def ready(self, clock: ClockWatch, identities: Mapping[str, str]) -> AliasMove:
        """Return the move of the alias, and keep the mark to publish; raise ClockError. Sessions have their own clocks.

        `identities` are those of the control index and of the candidates.
        """
        context, index, alias = self.candidate.context, self.candidate.index, self.candidate.lifecycle.alias
        fences, session = {self.candidate.fence: index}, self.session
        if session is None:
            marks = MarkStore(context, alias)
            control = identities.get(context.connection.control_index, "")
            stored = StoredIdentities(control, identities.get(index, ""), clock.latest_mark())
            mark = await first_generation_mark(marks, context, index, stored, clock)
            self._publish = partial(marks.publish, mark)
            return AliasMove(alias, index, None, fences)
        await session.clock.check_if_set()
        self._publish = partial(session.publish_mark, session.stamps.next_mark(index, identities.get(index, "")))
        return AliasMove(alias, index, session.live, {session.fence: session.live, **fences})


_GIGABYTE = 10**9
# With so many lines, one shard of 24 differs from another by 7 % (standard deviation).
_SAMPLE_SIZE = 5_000


@dataclass
class WeighedSample:
    """A random sample of lines, chosen in proportion to their bytes; the same for every pass over a source."""

    bytes: int = 0
    _chosen: list[tuple[float, int, SourceLine]] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - not used for security

    def offer(self, line: SourceLine) -> None:
        """Keep a line if it is among the chosen (the algorithm A-Res of Efraimidis and Spirakis)."""
        size = len(line.data) or 1
        self.bytes += size
        ranked = (math.log(1.0 - self._random.random()) / size, self.bytes, line)
        if len(self._chosen) < _SAMPLE_SIZE:
            heapq.heappush(self._chosen, ranked)
        elif ranked > self._chosen[0]:
            heapq.heapreplace(self._chosen, ranked)

    @property
    def lines(self) -> list[SourceLine]:
        """The chosen lines, unordered."""
        return [line for _, _, line in self._chosen]


def choose_ranges(source: Source, resource: Resource, companies: Companies, settings: IndexerSettings) -> ShardRanges:
    """Return the ranges of a build of more than one shard, from one more pass over its source. May run in a thread.

    Raises SourceError.
    """
    request = ShardRequest(settings.shards, settings.shard_gigabytes)
    requested = request.shards(resource.alias)
    sample = WeighedSample()
    with source.open(resource) as reading:
        for line in reading.accepted_lines:
            sample.offer(line)
    shards = fitting_shards(sample.bytes, request.gigabytes) if requested == AUTO else requested
    return cut_evenly(_feed_keys(sample.lines, LineParser(resource, companies, settings)), shards)


def fitting_shards(source_bytes: int, shard_gigabytes: float) -> int:
    """Return how many shards of at most so many gigabytes a source of listings fills."""
    return min(MAX_SHARDS, max(1, math.ceil(source_bytes * INDEX_SHARE / (shard_gigabytes * _GIGABYTE))))


def _feed_keys(lines: list[SourceLine], parser: LineParser) -> list[str]:
    chunk = ParsedChunk()
    for line in lines:
        parser.parse_into(line, chunk)
    return [feed_key(document.company, document.id) for document in chunk.drafts]
