"""A copy that begins with published files: they cost the service nothing, and are resumed within a file.

They hold lines of a snapshot or of changes, in frames of zstd (the module of Python 3.14, or its backport).
"""

import asyncio
import datetime as dt
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from brokerage_feed.errors import FeedRequestRejected, NoProgress
from brokerage_feed.feed import Feed
from brokerage_feed.http_client import MAX_LINE_BYTES, MalformedResponse, decode_message
from brokerage_feed.messages import Change, ChangeBatch, ListedFile, PublishedFiles, SnapshotHeader, SnapshotRecord
from brokerage_feed.private_files import make_folder
from brokerage_feed.pull_progress import PullStatus
from brokerage_feed.sqlite_copy import CopyCheckpoint, SqliteCopy

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_FORMAT = "ndjson.zst"
# A batch is in memory.
BATCH_RECORDS, BATCH_BYTES = 1000, MAX_LINE_BYTES
# The changes since an older publication can take longer than a snapshot.
_FRESH = dt.timedelta(days=7)
# The scope cannot be published, the key may not see all fields, or nothing is published.
_NOT_AVAILABLE = frozenset({400, 403, 404})
_RECORD, _CHANGE = msgspec.json.Decoder(SnapshotRecord), msgspec.json.Decoder(Change)

Item = TypeVar("Item", SnapshotRecord, Change)


class FileUpdater:
    """Loads published files into a copy; `folder` keeps them until they are loaded."""

    def __init__(self, feed: Feed, copy: SqliteCopy, folder: Path) -> None:
        self._feed, self._copy, self._folder = feed, copy, folder

    async def load(self, status: PullStatus, on_progress: Callable[[], None]) -> bool:
        """Copy a resource from its files; return False if there are none that fit: take a snapshot instead."""
        checkpoint = await asyncio.to_thread(self._copy.checkpoint, status.resource)
        published = await self._published(status.resource)
        # What an interrupted run has stored continues with files of the same moment only.
        if published is None or checkpoint.pending_token not in {None, published.token}:
            return False
        if checkpoint.pending_token is None:
            await asyncio.to_thread(self._copy.begin_snapshot, status.resource, _header(published))
        status.total = status.resumed_at = published.records
        await self._load_files(published, checkpoint, status, on_progress)
        status.removed += await asyncio.to_thread(self._copy.complete_snapshot, status.resource)
        status.files += len(published.files)
        return True

    async def changes(self, resource: str, token: str) -> AsyncGenerator[ChangeBatch, None]:
        """Yield the changes since a token from files; nothing if there are none, or reading all files is shorter.

        The last batch alone has another token.
        """
        published = await self._published(resource, token)
        files = None if published is None else published.changes
        if published is None or files is None or _size(files) >= _size(published.files):
            return
        await asyncio.to_thread(make_folder, self._folder)
        for file in files:
            path = self._path(file)
            if file.format != _FORMAT or not await self._is_downloaded(resource, file, path):
                return
            count, found = 0, _read_changes(path, file.records)
            while batch := await asyncio.to_thread(_take, found):
                count += len(batch)
                yield ChangeBatch(batch, token, at_end=False)
            _require_count(file, count)
            await asyncio.to_thread(path.unlink)
        yield ChangeBatch([], published.token, at_end=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _is_downloaded(self, resource: str, file: ListedFile, path: Path) -> bool:
        """Download a file; return False if it is no longer published."""
        try:
            await self._feed.download(resource, file, path)
        except FeedRequestRejected as error:
            if error.status in _NOT_AVAILABLE:
                return False
            raise
        return True

    def _path(self, file: ListedFile) -> Path:
        """Return where a file is kept; its name was chosen by the service."""
        return self._folder / f"{file.sha256}.zst"

    async def _published(self, resource: str, since: str = "") -> PublishedFiles | None:
        """Return what is published of a resource, None if a snapshot is better."""
        if not self._feed.is_whole:
            return None
        try:
            published = await self._feed.published(resource, since)
        except FeedRequestRejected as error:
            if error.status in _NOT_AVAILABLE:
                return None
            raise
        age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(published.published)
        files = published.of_format(_FORMAT)
        is_whole = sum(file.records for file in files) == published.records
        return msgspec.structs.replace(published, files=files) if is_whole and age < _FRESH else None

    async def _load_files(
        self, published: PublishedFiles, checkpoint: CopyCheckpoint, status: PullStatus, on_progress: Callable[[], None]
    ) -> None:
        left = [file for file in published.files if _is_beyond(file.last, checkpoint.after)]
        status.done = status.resumed_at = published.records - sum(file.records for file in left)
        await asyncio.to_thread(make_folder, self._folder)
        for file in left:
            path = self._path(file)
            await self._feed.download(published.resource, file, path)
            await self._load_file(file, path, checkpoint.after, status, on_progress)
            await asyncio.to_thread(path.unlink)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _load_file(
        self, file: ListedFile, path: Path, after: str | None, status: PullStatus, on_progress: Callable[[], None]
    ) -> None:
        before, records = status.done, _read_records(path, file.records, after)
        while batch := await asyncio.to_thread(_take, records):
            await asyncio.to_thread(self._copy.add_snapshot_records, status.resource, batch)
            status.done += len(batch)
            on_progress()
        if after is None:
            _require_count(file, status.done - before)
        status.done = before + file.records


def _size(files: Sequence[ListedFile]) -> int:
    return sum(file.bytes for file in files)


def _require_count(file: ListedFile, count: int) -> None:
    if count != file.records:
        raise NoProgress(f"{file.name} has {count} records, and not {file.records}.")


def _header(published: PublishedFiles) -> SnapshotHeader:
    return SnapshotHeader(published.resource, published.token, published.records)


def _take(items: Iterator[Item]) -> list[Item]:
    """Return the next items, as many as a batch may have; none at the end."""
    taken, size = list[Item](), 0
    while len(taken) < BATCH_RECORDS and size < BATCH_BYTES and (item := next(items, None)) is not None:
        taken.append(item)
        size += item.size
    return taken


def _read_records(path: Path, most: int, after: str | None = None) -> Iterator[SnapshotRecord]:
    """Yield the records of a file after a cursor; raise NoProgress if it holds something else, or more than `most`."""
    is_after = after is None
    for record in _decoded(path, _RECORD, most):
        is_after = is_after or _is_beyond(record.cursor, after)
        if is_after:
            yield record


def _read_changes(path: Path, most: int) -> Iterator[Change]:
    """Yield the changes of a file in order; raise NoProgress if it holds something else, or more than `most`."""
    return _decoded(path, _CHANGE, most)


def _decoded(path: Path, decoder: msgspec.json.Decoder[Item], most: int) -> Iterator[Item]:
    for number, line in enumerate(_lines(path)):
        if number == most:
            raise NoProgress(f"{path.name} has more than the {most:,} records that are listed.")
        try:
            yield decode_message(line, decoder, path.name)
        except MalformedResponse as error:
            raise NoProgress(str(error)) from None


def _is_beyond(cursor: str, after: str | None) -> bool:
    """Whether a cursor comes after another one in the order of a snapshot, which is that of UTF-8."""
    return after is None or cursor.encode() > after.encode()


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with zstd.open(path, "rb") as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    raise NoProgress(f"{path.name} has a line of more than {MAX_LINE_BYTES:,} bytes.")
                yield line
    except (zstd.ZstdError, EOFError) as error:
        raise NoProgress(f"{path.name} is not a zstd file: {error}.") from None
