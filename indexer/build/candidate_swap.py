"""The swap of candidates: each is brought up to date and stamped, then all aliases move in one request."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

from cluster.control_index import Mark
from indexer.build.candidate import Candidate
from indexer.changes.replay import assign_pending_stamps, reset_stale_stamps
from indexer.changes.write_session import WriteSession, first_generation_mark, open_write_session
from indexer.control.lives import read_identity
from indexer.control.mark_store import MarkStore
from indexer.errors import LockedError, RefusedError
from indexer.indices.cluster_clock import ClockWatch
from indexer.indices.lifecycle import DELETED_QUERY, LIVE_QUERY, AliasMove
from indexer.indices.refreshes import refresh_to_seq_nos
from indexer.indices.seq_nos import stored_seq_nos
from indexer.reporting.report import RunStage


async def swap_together(candidates: Sequence[Candidate]) -> None:
    """Swap in all candidates, which have passed the gate, or none of them; then publish their marks.

    Updates of a resource wait from when its write session opens until the swap. The largest changes are stamped first,
    so that the other resources wait for them without a lock. Raises RefusedError, LockedError or ClockError.
    """
    async with AsyncExitStack() as stack:
        swaps = []
        for candidate in sorted(candidates, key=lambda each: -each.job.report.changes):
            swap = CandidateSwap(candidate)
            async with candidate.recorded_refusal():
                await swap.stage(stack)
            swaps.append(swap)
        await candidates[0].lock.verify()
        ready = [await swap.ready() for swap in swaps]
        first, *others = [each.move for each in ready]
        await swaps[0].candidate.lifecycle.swap(first.index, first.live, first.fences, together=others)
        for each in ready:
            with suppress(LockedError):  # another run has published a later mark since the swap
                await each.publish(each.mark)


class ReadySwap(NamedTuple):
    """The move of an alias, the mark to publish after it, and what publishes it."""

    move: AliasMove
    mark: Mark
    publish: Callable[[Mark], Awaitable[None]]


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
            raise RefusedError(f"{live} is no longer live: {self.candidate.index} was not swapped in.")
        await self.candidate.catch_up(live)
        await self.candidate.lifecycle.refresh(self.candidate.index)
        await self.session.publish_forgotten(self.candidate.progress.forgotten)
        await self._stamp(self.session)
        await self._count_live(succeeds=self.session.identity)

    async def _stamp(self, session: WriteSession) -> None:
        """Stamp above the mark; stamps of an interrupted run are assigned again."""
        candidate, progress, context = self.candidate, self.candidate.progress, self.candidate.context
        sender = await candidate.sender()
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
        built_to = stored_seq_nos(await refresh_to_seq_nos(self.candidate.context, index))
        await lifecycle.update_meta(index, built_to=built_to, succeeds=succeeds)
        report.documents = await lifecycle.count(index, LIVE_QUERY)
        report.tombstones = await lifecycle.count(index, DELETED_QUERY)

    async def ready(self) -> ReadySwap:
        """Check the clocks, and return what remains to be done for the swap."""
        context, index, alias = self.candidate.context, self.candidate.index, self.candidate.lifecycle.alias
        fences, session = {self.candidate.fence: index}, self.session
        if session is None:
            clock, marks = ClockWatch(context), MarkStore(context, alias)
            await clock.check()
            mark = await first_generation_mark(marks, context, index, clock)
            return ReadySwap(AliasMove(alias, index, None, fences), mark, marks.publish)
        identity = await read_identity(context, index)
        await session.clock.check_if_set()
        move = AliasMove(alias, index, session.live, {session.fence: session.live, **fences})
        return ReadySwap(move, session.stamps.next_mark(index, identity), session.publish_mark)
