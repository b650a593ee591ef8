"""The files of one publication, written page by page: a frame for each page, and a new file above a size."""

import re
from itertools import chain
from pathlib import Path
from typing import IO

import orjson

from cluster.zstd import zstd
from mappings.stored_document import feed_key
from service.exports.manifest import NDJSON_ZSTD, PublishedFile, identifiers_name
from service.publishing.publish_target import PublishTarget
from service.publishing.seekable_frames import FrameWriter
from service.publishing.target_folder import flush_to_disk
from service.publishing.typed_files import TypedFiles
from service.publishing.typed_tables import OpenTables

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
        """Write nothing yet. The folder has the name of the resource."""
        self._target, self._folder, self._are_changes = target, folder, are_changes
        self._stem = f"{publication}-{'c' if are_changes else '0'}"
        self._open: _OpenFile | None = None
        self._done: list[list[PublishedFile]] = []

    @property
    def size(self) -> int:
        """The bytes of the lines so far, compressed."""
        done = sum(file.bytes for file in chain(*self._done) if file.format == NDJSON_ZSTD)
        return done + (0 if self._open is None else self._open.size)

    def add(self, lines: bytes) -> None:
        """Add a page of lines."""
        if self._open is None:
            stem = self._folder / f"{self._stem}{len(self._done) + 1:04}"
            tables = None if self._are_changes else self._target.open_tables
            self._open = _OpenFile(self._target, stem, self._folder.name, tables)
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
        for name in self._target.names(self._folder):
            if name.startswith(self._stem):
                self._target.delete(self._folder / name)

    def _finish_file(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None
