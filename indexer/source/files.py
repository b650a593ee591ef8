"""Files of lines: their envelopes, a fingerprint of their state, and their modification time."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from indexer.errors import SourceError
from indexer.settings import IndexerSettings
from indexer.source.bounded_lines import bounded_lines, checked_size, without_mark
from indexer.source.compression import decompressed, report_damage
from indexer.source.lines import LineStream, RejectedLine, SourceLine
from mappings import Resource

_DIGEST_BYTES = 16


@contextmanager
def open_line_file(
    path: Path, max_bytes: int = IndexerSettings.max_record_bytes, resource: Resource | None = None
) -> Iterator[LineStream]:
    """Open a file of envelopes, plain or compressed, of one resource if that is given; longer lines are rejected."""
    with open_raw(path) as raw, decompressed(raw) as plain:
        lines = numbered_lines(path.name, plain.reader, max_bytes, resource)
        yield LineStream(lines, path.stat().st_size, plain.position)


def open_raw(path: Path) -> io.BufferedReader:
    """Open a file for reading its stored bytes; raise SourceError if that fails."""
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error


def numbered_lines(
    file: str, plain: io.BufferedReader, max_bytes: int, resource: Resource | None = None, *, before: int = 0
) -> Iterator[SourceLine | RejectedLine]:
    """Yield the lines that are not blank, numbered as in an editor after those `before`; longer ones are rejected."""
    number = before
    with report_damage(file, lambda: number):
        for number, data in enumerate(bounded_lines(plain, max_bytes), before + 1):
            content = without_mark(file, number, data)
            item = checked_size(SourceLine(file, number, content), max_bytes, resource)
            if content and (not content.isspace() or isinstance(item, RejectedLine)):
                yield item


def file_identity(*paths: Path) -> str:
    """Return a hexadecimal digest of the paths, sizes and modification times of the files."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for path in paths:
        state = path.stat()
        digest.update(f"{path.resolve()}\n{state.st_size}\n{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def modified_microseconds(path: Path) -> int:
    """Return the modification time in microseconds since 1970."""
    return path.stat().st_mtime_ns // 1000
