"""The files of a publication: compressed lines in frames that can be read apart, typed tables, and changes."""

import asyncio
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from itertools import chain
from pathlib import Path
from typing import IO, Protocol, Self

import orjson

from cluster.control_index import Mark
from cluster.zstd import zstd
from mappings.resource import Resource
from mappings.stored_document import feed_key
from service.changes.changes import PageRequest, read_changes_page
from service.exports.object_store import is_store_url
from service.exports.operations import token_position
from service.exports.publications import NDJSON_ZSTD, PARQUET, Publications, PublishedFile, identifiers_name
from service.feed.entries import FeedView
from service.parameters import MAX_PAGE_SIZE
from service.publishing.store_target import TargetStore
from service.publishing.target import OpenTables, PublishError, RunLog, TargetFolder, flush_to_disk
from service.token import FeedTokenExpired


class PublishTarget(Protocol):
    """Where one process at a time publishes to. Paths are below `root`; what `publications` reads is what is visible.

    Methods raise OSError or PublishError.
    """

    root: Path
    publications: Publications
    open_tables: OpenTables | None

    def locked(self, note: Callable[[str], None], /) -> AbstractAsyncContextManager[None]:
        """Hold the lock; raise PublishLocked if another process does. `note` takes what the operator waits for."""

    def folder(self, *names: str) -> Path:
        """Return a folder below, in which files can be created."""

    def create(self, path: Path, /) -> IO[bytes]:
        """Open a new file for writing."""

    def complete(self, paths: Iterable[Path], /) -> None:
        """Take files whose last bytes are written."""

    def replace(self, path: Path, content: bytes, /) -> None:
        """Write a small file so that its readers see either the earlier or the new content, whole."""

    def companies(self) -> Sequence[str]:
        """Return the names of all folders below the root."""

    def contents(self, folder: Path, /) -> Mapping[str, float]:
        """Return the files in a folder, complete or not, and when each was written, in Unix seconds.

        It is empty if the folder does not exist."""

    def delete(self, path: Path, /) -> None:
        """Delete a file, if it exists."""

    def remove_empty(self, folder: Path, /) -> None:
        """Delete a folder if it is empty."""

    def run_log(self) -> RunLog:
        """Return what a run that was killed has published."""


def open_target(place: str, open_tables: OpenTables | None = None) -> PublishTarget:
    """Return the target that a path or a URL names; raise ValueError for a URL that cannot be used.

    With `open_tables` there are typed tables, too.
    """
    return TargetStore(place, open_tables) if is_store_url(place) else TargetFolder(Path(place), open_tables)


# Of the dictionary search; a higher one takes twice the time for a tenth fewer bytes.
_LEVEL = 3
_SKIPPABLE_FRAME, _SEEK_TABLE = 0x184D2A5E, 0x8F92EAB1
_entry = struct.Struct("<II").pack
_footer = struct.Struct("<IBI").pack


@dataclass
class FrameWriter:
    """Writes frames to a file, and keeps their sizes and the SHA-256 of all bytes."""

    file: IO[bytes]
    size: int = 0
    _entries: list[bytes] = field(default_factory=list)
    _hash: object = field(default_factory=sha256)

    def add(self, content: bytes) -> None:
        frame = zstd.compress(content, _LEVEL)
        self._entries.append(_entry(len(frame), len(content)))
        self._write(frame)

    def finish(self) -> str:
        """Append the seek table; return the SHA-256 of the file."""
        entries = b"".join(self._entries)
        footer = _footer(len(self._entries), 0, _SEEK_TABLE)
        self._write(_entry(_SKIPPABLE_FRAME, len(entries) + len(footer)) + entries + footer)
        return self._hash.hexdigest()  # type: ignore[attr-defined,no-any-return]

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self._hash.update(data)  # type: ignore[attr-defined]
        self.size += len(data)


class TypedFiles:
    """The files of all tables, next to the file `stem` without its format."""

    def __init__(self, target: PublishTarget, stem: Path, resource: str, open_tables: OpenTables) -> None:
        self._target, self._stem = target, stem
        self._tables = open_tables(resource, lambda table: target.create(self._path(table)))

    def _path(self, table: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{table}.{PARQUET}")

    def add(self, lines: bytes) -> None:
        with _naming(self._stem):
            self._tables.add(lines)

    def finish(self, last: str) -> list[PublishedFile]:
        """Complete the files, of which the feed key of the last record is `last`."""
        with _naming(self._stem):
            rows = self._tables.finish()
        return [self._published(table, count, last) for table, count in rows.items()]

    def _published(self, table: str, rows: int, last: str) -> PublishedFile:
        path = self._path(table)
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = file_digest(file, "sha256").hexdigest()
        return PublishedFile(path.name, PARQUET, path.stat().st_size, rows, digest, last, table)

    def close(self) -> None:
        self._tables.close()


@contextmanager
def _naming(stem: Path) -> Iterator[None]:
    """Turn a value that no column can hold into PublishError."""
    try:
        yield
    except ValueError as error:
        raise PublishError(f"{stem.name} of {stem.parent.name} cannot be written as {PARQUET}: {error}") from error


# Bytes after which a file is complete; the frame that exceeds it is the last.
FILE_BYTES = 256_000_000
# How `service.feed` begins the line of a record, or of a change.
_IDENTITY = re.compile(rb'\{(?:"resource":"[a-z_]+",)?"company":"([^"]*)","id":("(?:[^"\\]|\\.)*")')


class _OpenFile:
    """A file that frames are added to, the identifiers in it, and its typed tables."""

    def __init__(self, target: PublishTarget, stem: Path, resource: str, open_tables: OpenTables | None) -> None:
        self._target, self._resource = target, resource
        self._path = stem.with_name(f"{stem.name}.{NDJSON_ZSTD}")
        self._file: IO[bytes] = target.create(self._path)
        self._frames = FrameWriter(self._file)
        self._identifiers, self._records, self._last = bytearray(), 0, ""
        self._typed = None if open_tables is None else TypedFiles(target, stem, resource, open_tables)

    @property
    def size(self) -> int:
        return self._frames.size

    def add(self, lines: bytes) -> None:
        self._frames.add(lines)
        identities = _identities(lines)
        names = [str(orjson.loads(name)) for _, name in identities]
        self._identifiers += "".join(f"{name}\n" for name in names).encode()
        self._records += len(names)
        self._last = feed_key(identities[-1][0].decode(), names[-1])
        if self._typed is not None:
            self._typed.add(lines)

    def finish(self) -> list[PublishedFile]:
        digest = self._frames.finish()
        with self._file:
            flush_to_disk(self._file)
        identifiers = self._path.with_name(identifiers_name(self._path.name))
        with self._target.create(identifiers) as file:
            file.write(zstd.compress(self._identifiers))
            flush_to_disk(file)
        typed = [] if self._typed is None else self._typed.finish(self._last)
        self._target.complete([self._path, identifiers, *(self._path.with_name(file.name) for file in typed)])
        own = PublishedFile(self._path.name, NDJSON_ZSTD, self.size, self._records, digest, self._last, self._resource)
        return [own, *typed]

    def close(self) -> None:
        self._file.close()
        if self._typed is not None:
            self._typed.close()


def _identities(lines: bytes) -> list[tuple[bytes, bytes]]:
    """Return the company and the identifier, in JSON, of each line; a search of all bytes takes ten times as long."""
    start, found = 0, list[tuple[bytes, bytes]]()
    while start < len(lines) and (match := _IDENTITY.match(lines, start)) is not None:
        found.append((match[1], match[2]))
        # JSON has no line break within a string.
        start = lines.index(b"\n", start) + 1
    return found


class PublicationFiles:
    """The files of a publication in a folder. Without a manifest that lists them, they are not served.

    Those of changes have no typed tables, and a `c` in their numbers.
    """

    def __init__(self, target: PublishTarget, folder: Path, publication: str, *, are_changes: bool = False) -> None:
        self._target, self.folder, self._are_changes = target, folder, are_changes
        self._stem = f"{publication}-{'c' if are_changes else '0'}"
        self._open: _OpenFile | None = None
        self._done: list[list[PublishedFile]] = []

    @property
    def size(self) -> int:
        """The bytes of the lines so far, compressed."""
        done = sum(file.bytes for file in chain(*self._done) if file.format == NDJSON_ZSTD)
        return done + (0 if self._open is None else self._open.size)

    def add(self, lines: bytes) -> None:
        if self._open is None:
            stem = self.folder / f"{self._stem}{len(self._done) + 1:04}"
            tables = None if self._are_changes else self._target.open_tables
            self._open = _OpenFile(self._target, stem, self.folder.name, tables)
        self._open.add(lines)
        if self._open.size >= FILE_BYTES:
            self._finish_file()

    def finish(self) -> tuple[PublishedFile, ...]:
        """Complete the last file; return all of them in the order of their records, typed ones last."""
        self._finish_file()
        return tuple(sorted(chain(*self._done), key=lambda file: file.format != NDJSON_ZSTD))

    def abandon(self) -> None:
        """Close the file that is not complete; the next pruning deletes all of them."""
        if self._open is not None:
            self._open.close()

    def discard(self) -> None:
        """Delete all of them."""
        self.abandon()
        for name in self._target.contents(self.folder):
            if name.startswith(self._stem):
                self._target.delete(self.folder / name)

    def _finish_file(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None


# Some 40 MB. A row group of Parquet is written at once, every tenth page or so; reading continues meanwhile.
_WAITING_PAGES = 12


class ThreadedWriter:
    """Compresses and writes pages in a thread, in their order, while the next ones are read."""

    def __init__(self, files: PublicationFiles) -> None:
        """Write pages to `files`."""
        self._files, self._thread = files, ThreadPoolExecutor(1)
        self._writing = deque[asyncio.Future[None]]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_details: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        # The first error was raised already; those of other pages, often the same, must not be logged as lost.
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def add(self, page: bytes) -> None:
        """Write a page soon; raise the error of an earlier one."""
        if len(self._writing) == _WAITING_PAGES:
            await self._writing.popleft()
        self._writing.append(asyncio.get_running_loop().run_in_executor(self._thread, self._files.add, page))

    async def flush(self) -> None:
        """Wait until all pages are written."""
        while self._writing:
            await self._writing.popleft()


async def write_changes(request: PageRequest, files: PublicationFiles, most: int) -> tuple[PublishedFile, ...] | None:
    """Write the changes of one resource from its position up to its mark.

    Return None if they cannot continue from the position, or take more than `most` bytes: nothing of them stays.
    """
    (resource,) = request.positions
    try:
        while request.has_changes and files.size <= most:
            page = await read_changes_page(request)
            if page.entries:
                await asyncio.to_thread(files.add, b"".join(entry + b"\n" for entry in page.entries))
            request = replace(request, positions={resource: page.positions[resource]})
    except FeedTokenExpired:
        most = -1
    if files.size > most:
        await asyncio.to_thread(files.discard)
        return None
    return await asyncio.to_thread(files.finish)


async def changes_since(view: FeedView, resource: Resource, sealed: str, mark: Mark) -> PageRequest | None:
    """Return the request for the changes since a token of a publication, None if they cannot continue from it."""
    position = await token_position(view, resource, sealed)
    if position is None or position.is_expired(mark):
        return None
    return PageRequest(view, {resource: position}, {resource: mark}, MAX_PAGE_SIZE)
