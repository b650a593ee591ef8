"""Updates of a copy: snapshots where there is no valid token, then changes, each batch with its checkpoint."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from brokerage_feed.errors import ResourceNotLoaded, TokenExpired
from brokerage_feed.feed import Feed
from brokerage_feed.messages import ChangeBatch, SnapshotRecord
from brokerage_feed.published_files import BATCH_BYTES, BATCH_RECORDS, FileUpdater
from brokerage_feed.pull_progress import PullStage, PullStatus
from brokerage_feed.sqlite_copy import SqliteCopy

TouchedRecords = set[tuple[str, str]]

# Prevents an endless loop if tokens expire before their snapshots are complete.
_MAX_ROUNDS = 3
# Between two requests for a resource of which the service has no data.
_ABSENT_SECONDS = 30.0


class CopyUpdater:
    """Keeps a copy of some resources up to date. `show` is called with the status at every step."""

    def __init__(
        self,
        feed: Feed,
        copy: SqliteCopy,
        resources: Sequence[str],
        show: Callable[[PullStatus], None],
        files: FileUpdater | None = None,
    ) -> None:
        """Take the resources in the order of the feed, referenced ones first; `files` replace first snapshots."""
        self._files = files
        self.feed, self.copy, self.resources = feed, copy, resources
        self.statuses = {resource: PullStatus(resource) for resource in resources}
        self._show = show
        self._looked: set[str] = set()  # resources whose files of changes were looked for
        self._absent: dict[str, float] = {}  # time of the last request for a resource without data

    @property
    def present(self) -> list[str]:
        """The resources of which the service has data."""
        return [resource for resource in self.resources if resource not in self._absent]

    async def catch_up(self, wait: int = 0, touched: TouchedRecords | None = None) -> None:
        """Take missing snapshots and all changes; wait up to `wait` seconds for the first change.

        `touched` collects the resources and identifiers of the changes.
        """
        for _ in range(_MAX_ROUNDS):
            await self._take_missing_snapshots()
            try:
                await self._apply_all(wait, touched)
            except TokenExpired:
                await self._apply_each(touched)
            else:
                return
        await self._apply_all(0, touched)

    async def _take_missing_snapshots(self) -> None:
        for resource in self.resources:
            asked_at = self._absent.get(resource)
            if self._token(resource) is not None or (asked_at and time.monotonic() < asked_at + _ABSENT_SECONDS):
                continue
            try:
                await self._take_copy(resource)
            except ResourceNotLoaded:
                self._absent[resource] = time.monotonic()
                self.report_stage(resource, PullStage.ABSENT)
            else:
                self._absent.pop(resource, None)

    async def _apply_all(self, wait: int, touched: TouchedRecords | None) -> None:
        """Read the changes of all resources in one stream, so that a record comes after what it refers to."""
        if not self.present:
            return
        if len({self._token(resource) for resource in self.present}) > 1:
            # A token may cover several resources, but the tokens of a request must not overlap.
            await self._apply_each(touched)
        tokens = dict.fromkeys(self._token(resource) or "" for resource in self.present)
        await self._apply([*tokens], self.present, wait, touched)

    async def _apply_each(self, touched: TouchedRecords | None) -> None:
        """Read the changes of one resource after another; take a snapshot if a token has expired."""
        for resource in self.present:
            try:
                await self._apply([self._token(resource) or ""], [resource], 0, touched)
            except TokenExpired:
                await self._take_copy(resource)

    async def _apply(
        self, tokens: Sequence[str], resources: Sequence[str], wait: int, touched: TouchedRecords | None
    ) -> None:
        async with aclosing(self.feed.changes(tokens, resources=resources, wait=wait)) as pages:
            async for page in pages:
                await self._apply_page(page, resources, touched)
                if not page.at_end and await self._apply_files(resources, touched):
                    # Tokens of different resources must not overlap.
                    await self._apply_each(touched)
                    return
        for resource in resources:
            self.report_stage(resource, PullStage.CURRENT)

    async def _apply_files(self, resources: Sequence[str], touched: TouchedRecords | None) -> bool:
        """Apply published files of changes, which are looked for once; return whether there were any."""
        unseen = [resource for resource in resources if self._files is not None and resource not in self._looked]
        self._looked |= {*unseen}
        before = [self._token(resource) for resource in unseen]
        for resource in unseen:
            await self._apply_file_changes(resource, touched)
        return before != [self._token(resource) for resource in unseen]

    async def _apply_file_changes(self, resource: str, touched: TouchedRecords | None) -> None:
        if self._files is None:
            return
        async with aclosing(self._files.changes(resource, self._token(resource) or "")) as pages:
            async for page in pages:
                await self._apply_page(page, [resource], touched)
                self.statuses[resource].files += page.at_end

    async def _apply_page(self, page: ChangeBatch, resources: Sequence[str], touched: TouchedRecords | None) -> None:
        await asyncio.to_thread(self.copy.apply_changes, page, resources)
        self._count(page)
        if touched is not None:
            touched |= {(change.resource, change.id) for change in page.changes}

    def _count(self, page: ChangeBatch) -> None:
        for change in page.changes:
            status = self.statuses[change.resource]
            status.changed += change.reason is None
            status.removed += change.reason is not None
        for resource in dict.fromkeys(change.resource for change in page.changes):
            self.report_stage(resource, PullStage.CHANGES)

    def _token(self, resource: str) -> str | None:
        """Return the token to read changes from, None if there is none or a snapshot is in progress."""
        checkpoint = self.copy.checkpoint(resource)
        return None if checkpoint.pending_token else checkpoint.token

    async def _take_copy(self, resource: str) -> None:
        """Load the published files of a resource, or else take a snapshot."""
        status = self.statuses[resource]
        self._looked.add(resource)
        report = partial(self.report_stage, resource, PullStage.SNAPSHOT)
        if self._files is None or not await self._files.load(status, report):
            await self.take_snapshot(resource)

    async def take_snapshot(self, resource: str) -> None:
        """Take a snapshot, or resume one. Records that it lacks are removed once it is complete."""
        checkpoint, status = await asyncio.to_thread(self.copy.checkpoint, resource), self.statuses[resource]
        header, records = await self.feed.snapshot(resource, checkpoint.after)
        async with aclosing(records):
            if checkpoint.pending_token is None:
                await asyncio.to_thread(self.copy.begin_snapshot, resource, header)
            status.total = header.count if checkpoint.after is None else max(checkpoint.expected, header.count)
            status.done = status.resumed_at = status.total - header.count
            async for batch in _batches(records):
                await asyncio.to_thread(self.copy.add_snapshot_records, resource, batch)
                status.done += len(batch)
                self.report_stage(resource, PullStage.SNAPSHOT)
        status.removed += await asyncio.to_thread(self.copy.complete_snapshot, resource)
        status.snapshots += 1

    def report_stage(self, resource: str, stage: PullStage) -> None:
        status = self.statuses[resource]
        status.stage, status.note = stage, None
        self._show(status)

    def report_waiting(self, seconds: float, reason: str) -> None:
        """Report that an attempt has failed, and when the next one starts."""
        for status in self.statuses.values():
            if status.stage is not PullStage.CURRENT:
                status.note = f"retrying in {seconds:.0f} s: {reason}"
                self._show(status)


async def _batches(records: AsyncIterator[SnapshotRecord]) -> AsyncIterator[list[SnapshotRecord]]:
    batch, size = list[SnapshotRecord](), 0
    async for record in records:
        batch.append(record)
        size += record.size
        if len(batch) == BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
