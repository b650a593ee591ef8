"""One rebuild of one resource: begun or gone on with, loaded, compared, let through the gate, and swapped in."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from indexer.bulk import Sender, Terms
from indexer.catch_up import overtaken, replay, restamp
from indexer.checkpoint import Checkpoint, Phase, Progress
from indexer.clocks import DEPARTED, PROVISIONAL, VANISHED, now
from indexer.duplicates import settle
from indexer.errors import LockedError, RefusedError
from indexer.fence import put_up
from indexer.gate import Gate, Sample
from indexer.ledger import Entry, enter
from indexer.lifecycle import DELETED, LIVE, Lifecycle
from indexer.loading import Loader
from indexer.marks import MarkKeeper
from indexer.reconcile import reconcile
from indexer.report import Stage
from indexer.scan import last_written
from indexer.writer import first_mark, writing

if TYPE_CHECKING:
    from indexer.engine import Engine
    from indexer.job import Job
    from indexer.lock import Lock
    from indexer.pace import Pace
    from indexer.writer import Writer


class Build:
    """Owns the candidate of one resource from its creation to its swap."""

    def __init__(self, engine: Engine, job: Job, lock: Lock, pace: Pace) -> None:
        """Nothing is asked of the cluster yet."""
        self._engine = engine
        self._job = job
        self._lock = lock
        self._pace = pace
        self._lifecycle = Lifecycle(engine, job.resource)
        self._checkpoint = Checkpoint(engine, self._lifecycle.alias)
        self._fence = ""
        self._sample = Sample()
        self._gate = Gate(engine, job, self._lifecycle, self._sample)

    async def run(self) -> None:
        """Build the next generation and swap it in.

        Whatever ends it before the swap leaves the live generation as it was. A refusal keeps the candidate to be
        looked at, anything else to be gone on with.
        """
        progress = await self._begun()
        name = f"{self._lifecycle.alias}-builder"
        self._fence = await put_up(self._engine, name, self._lock.token, progress.candidate)
        report = self._job.report
        report.generation, report.previous = progress.candidate, progress.live
        try:
            await self._prepare(progress)
            await self._hand_over(progress)
        except RefusedError as refusal:
            progress.refusal = str(refusal)
            await self._checkpoint.write(progress)
            raise
        done = Entry("reindex", now(), progress.newest, report.read, report.dead, report.dead_letters)
        await enter(self._engine, self._lifecycle.alias, done)
        await self._checkpoint.clear()
        await self._lifecycle.prune(await self._lifecycle.generations())

    async def _begun(self) -> Progress:
        """Return the build that an earlier run was killed in, or begin one and delete what that left."""
        present, left = await self._lifecycle.generations(), await self._checkpoint.read()
        source, shape = self._job.source.identity(self._job.resource), self._lifecycle.fingerprint
        if left is not None and left.candidate in present.metas and left.candidate != present.live:
            if left.refusal is None and (left.live, left.source, left.fingerprint) == (present.live, source, shape):
                self._resume(left)
                return left
            await self._lifecycle.discard(left.candidate)
        follows = await last_written(self._engine, present.live) if present.live else -1
        known = await MarkKeeper(self._engine, self._lifecycle.alias).read()
        candidate = await self._lifecycle.create(present, known.generation if known else None)
        taken_at = self._job.source.taken_at(self._job.resource)
        letters = self._job.letters.file
        progress = Progress(candidate, present.live, source, shape, taken_at, dead_letters=letters, follows=follows)
        await self._checkpoint.write(progress)
        return progress

    def _resume(self, progress: Progress) -> None:
        report, letters = self._job.report, self._job.letters
        report.resumed_at = progress.line
        for name, count in progress.counts.items():
            setattr(report, name, count)
        letters.resume(progress.dead_letters, progress.bad)
        letters.count_in(report)

    async def _prepare(self, progress: Progress) -> None:
        if progress.phase is Phase.LOADING:
            await self._load(progress)
        if progress.phase is Phase.LOADED:
            await self._compare(progress)
        self._job.enter(Stage.FINISHING)
        await self._lifecycle.finish(progress.candidate)

    async def _load(self, progress: Progress) -> None:
        job, report = self._job, self._job.report
        job.enter(Stage.READING)
        sender = self._sender(replaces_equal=False)
        loader = Loader(self._engine, job, self._checkpoint, progress, sender, self._sample)
        await loader.load()
        job.enter(Stage.COMPARING)
        await self._lifecycle.refresh(progress.candidate)
        settled = await settle(self._engine, progress.candidate, job, loader.repeated)
        copied = len(loader.copied - loader.repeated) + settled.copied
        job.letters.count_in(report)
        progress.accepted = report.read - report.dead - settled.superseded
        await self._gate.loaded(progress.candidate, progress.accepted)
        waiting = {"range": {"sequence": {"gte": PROVISIONAL}}}
        counted = await self._lifecycle.count(progress.candidate, waiting) if progress.live else progress.accepted
        report.indexed = counted
        report.stale = settled.superseded + copied
        report.unchanged = progress.accepted - copied - counted
        progress.phase = Phase.LOADED
        await loader.save()

    async def _compare(self, progress: Progress) -> None:
        job = self._job
        job.enter(Stage.COMPARING)
        # A request that is repeated may still arrive when all is stamped: it must find what it would write.
        await reconcile(self._engine, progress, self._sender(replaces_equal=False))
        await self._lifecycle.refresh(progress.candidate)
        count, report = self._lifecycle.count, job.report
        report.vanished = await count(progress.candidate, {"range": {"sequence": {"gte": VANISHED}}})
        known = progress.accepted + await count(progress.candidate, {"term": {"sequence": DEPARTED}})
        report.carried = await count(progress.candidate) - known - report.vanished
        if progress.live is not None:
            await self._catch_up(progress, progress.live)
            await self._lifecycle.refresh(progress.candidate)
        await self._gate.passed(progress.candidate, progress.live)
        progress.phase, progress.counts = Phase.PASSED, report.counted
        await self._checkpoint.write(progress)

    async def _catch_up(self, progress: Progress, live: str) -> None:
        """Replay what the live generation was told since; what it is told meanwhile is left to the next time."""
        reached = await last_written(self._engine, live)
        await replay(self._engine, live, progress.follows, self._sender(), progress.candidate)
        progress.follows = reached

    def _sender(self, *, replaces_equal: bool = True) -> Sender:
        terms = Terms(replaces_equal=replaces_equal, require_alias=True, opaque_id=self._lock.opaque_id)
        return Sender(self._engine.client, self._fence, self._pace, self._engine.settings, terms)

    async def _hand_over(self, progress: Progress) -> None:
        """Bring the candidate up to the present, stamp what is new in it, move the alias, then release the mark."""
        self._job.enter(Stage.SWAPPING)
        if progress.live is None:
            await self._open(progress)
            return
        await self._catch_up(progress, progress.live)
        sender = self._sender()
        async with writing(self._engine, self._job.resource, self._job.tell) as writer:
            if writer.live != progress.live:
                raise RefusedError(f"{progress.live} is no longer live: {progress.candidate} was not swapped in.")
            await self._catch_up(progress, progress.live)
            await self._lifecycle.refresh(progress.candidate)
            await writer.forget(progress.forgotten)
            await self._stamp(progress, writer, sender)
            await self._complete(progress)
            await self._lock.verify()
            mark, fences = writer.stamps.published(progress.candidate), {self._fence: progress.candidate}
            await self._lifecycle.swap(progress.candidate, progress.live, {writer.fence: progress.live, **fences})
            with suppress(LockedError):  # another has taken over since the swap, and published a later one
                await writer.release_mark(mark)

    async def _stamp(self, progress: Progress, writer: Writer, sender: Sender) -> None:
        """Stamp above the mark; a run that was killed here has its stamps given anew."""
        if progress.stamped_above is None:
            progress.stamped_above = writer.stamps.sequence
            await self._checkpoint.write(progress)
        else:
            await overtaken(self._engine, progress.candidate, writer.live, sender, progress.stamped_above)
            await self._lifecycle.refresh(progress.candidate)
        await restamp(self._engine, progress.candidate, writer, sender)

    async def _complete(self, progress: Progress) -> None:
        """Count what goes live, and note up to where the candidate is the build's own work."""
        candidate, report = progress.candidate, self._job.report
        await self._lifecycle.tell(candidate, built_to=await last_written(self._engine, candidate))
        report.documents = await self._lifecycle.count(candidate, LIVE)
        report.tombstones = await self._lifecycle.count(candidate, DELETED)

    async def _open(self, progress: Progress) -> None:
        """Swap in the first generation of all."""
        await self._complete(progress)
        await self._lock.verify()
        keeper = MarkKeeper(self._engine, self._lifecycle.alias)
        mark = await first_mark(keeper, self._engine, progress.candidate)
        await self._lifecycle.swap(progress.candidate, None, {self._fence: progress.candidate})
        with suppress(LockedError):  # an update has published a later one since the swap
            await keeper.publish(mark)
