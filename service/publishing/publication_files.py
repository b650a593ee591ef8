"""The files of one publication, written page by page: a frame for each page, and a new file above a size."""

from __future__ import annotations

import re
from itertools import chain
from typing import IO, TYPE_CHECKING

import orjson

from cluster.zstd import zstd
from mappings.stored_document import feed_key
from service.exports.manifest import NDJSON_ZSTD, PublishedFile, identifiers_name
from service.publishing.seekable_frames import FrameWriter
from service.publishing.target_folder import flush_to_disk
from service.publishing.typed_files import TypedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from service.publishing.target_folder import TargetFolder

# Bytes after which a file is complete; the frame that exceeds it is the last.
FILE_BYTES = 256_000_000
# How `service.feed` begins the line of a record in a snapshot. JSON has no line break within a string.
_IDENTITY = re.compile(rb'^\{"company":"([^"]*)","id":("(?:[^"\\]|\\.)*")', re.MULTILINE)


class _OpenFile:
    """A file that frames are added to, the identifiers in it, and its typed tables."""

    def __init__(self, target: TargetFolder, stem: Path, resource: str) -> None:
        self._target, self._resource = target, resource
        self._path = stem.with_name(f"{stem.name}.{NDJSON_ZSTD}")
        self._file: IO[bytes] = target.create(self._path)
        self._frames = FrameWriter(self._file)
        self._identities: list[tuple[bytes, bytes]] = []
        opened = target.open_tables
        self._typed = None if opened is None else TypedFiles(target, stem, resource, opened)

    @property
    def size(self) -> int:
        return self._frames.size

    def add(self, lines: bytes) -> None:
        self._frames.add(lines)
        self._identities += _IDENTITY.findall(lines)
        if self._typed is not None:
            self._typed.add(lines)

    def finish(self) -> list[PublishedFile]:
        digest = self._frames.finish()
        with self._file:
            flush_to_disk(self._file)
        names = [str(orjson.loads(name)) for _, name in self._identities]
        with self._target.create(self._path.with_name(identifiers_name(self._path.name))) as file:
            file.write(zstd.compress("".join(f"{name}\n" for name in names).encode()))
            flush_to_disk(file)
        last = feed_key(self._identities[-1][0].decode(), names[-1])
        typed = [] if self._typed is None else self._typed.finish(last)
        own = PublishedFile(self._path.name, NDJSON_ZSTD, self.size, len(names), digest, last, self._resource)
        return [own, *typed]

    def close(self) -> None:
        self._file.close()
        if self._typed is not None:
            self._typed.close()


class PublicationFiles:
    """The files of a publication in a folder. Without a manifest that lists them, they are not served."""

    def __init__(self, target: TargetFolder, folder: Path, publication: str) -> None:
        """Write nothing yet. The folder has the name of the resource."""
        self._target, self._folder, self._publication = target, folder, publication
        self._open: _OpenFile | None = None
        self._done: list[list[PublishedFile]] = []

    def add(self, lines: bytes) -> None:
        """Add a page of lines."""
        if self._open is None:
            stem = self._folder / f"{self._publication}-{len(self._done) + 1:05}"
            self._open = _OpenFile(self._target, stem, self._folder.name)
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

    def _finish_file(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None
