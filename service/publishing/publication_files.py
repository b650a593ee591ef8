"""The files of one publication, written page by page: a frame for each page, and a new file above a size."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

import orjson

from cluster.zstd import zstd
from mappings.stored_document import feed_key
from service.exports.manifest import NDJSON_ZSTD, PublishedFile, identifiers_name
from service.publishing.seekable_frames import FrameWriter
from service.publishing.target_folder import flush_to_disk

if TYPE_CHECKING:
    from pathlib import Path

    from service.publishing.target_folder import TargetFolder

# Bytes after which a file is complete; the frame that exceeds it is the last.
FILE_BYTES = 256_000_000
# How `service.feed` begins the line of a record in a snapshot. JSON has no line break within a string.
_IDENTITY = re.compile(rb'^\{"company":"([^"]*)","id":("(?:[^"\\]|\\.)*")', re.MULTILINE)


class _OpenFile:
    """A file that frames are added to, and the identifiers in it."""

    def __init__(self, target: TargetFolder, path: Path) -> None:
        self._target, self._path = target, path
        self._file: IO[bytes] = target.create(path)
        self._frames = FrameWriter(self._file)
        self._identities: list[tuple[bytes, bytes]] = []

    @property
    def size(self) -> int:
        return self._frames.size

    def add(self, lines: bytes) -> None:
        self._frames.add(lines)
        self._identities += _IDENTITY.findall(lines)

    def finish(self) -> PublishedFile:
        digest = self._frames.finish()
        with self._file:
            flush_to_disk(self._file)
        names = [str(orjson.loads(name)) for _, name in self._identities]
        with self._target.create(self._path.with_name(identifiers_name(self._path.name))) as file:
            file.write(zstd.compress("".join(f"{name}\n" for name in names).encode()))
            flush_to_disk(file)
        last = feed_key(self._identities[-1][0].decode(), names[-1])
        return PublishedFile(self._path.name, NDJSON_ZSTD, self.size, len(names), digest, last)

    def close(self) -> None:
        self._file.close()


class PublicationFiles:
    """The files of a publication in a folder. Without a manifest that lists them, they are not served."""

    def __init__(self, target: TargetFolder, folder: Path, publication: str) -> None:
        """Write nothing yet."""
        self._target, self._folder, self._publication = target, folder, publication
        self._open: _OpenFile | None = None
        self._done: list[PublishedFile] = []

    def add(self, lines: bytes) -> None:
        """Add a page of lines."""
        if self._open is None:
            name = f"{self._publication}-{len(self._done) + 1:05}.{NDJSON_ZSTD}"
            self._open = _OpenFile(self._target, self._folder / name)
        self._open.add(lines)
        if self._open.size >= FILE_BYTES:
            self._finish_file()

    def finish(self) -> tuple[PublishedFile, ...]:
        """Complete the last file; return all of them, in the order of their records."""
        self._finish_file()
        return tuple(self._done)

    def abandon(self) -> None:
        """Close the file that is not complete; the next pruning deletes all of them."""
        if self._open is not None:
            self._open.close()

    def _finish_file(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None
