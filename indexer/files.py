"""A file of lines: its envelopes one by one, what tells it from an earlier state of itself, and how old it is."""

from __future__ import annotations

from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from indexer.errors import SourceError
from indexer.packed import damage_told, unpacked
from indexer.source import Line, Reading

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST_BYTES = 16


@contextmanager
def open_file(path: Path) -> Iterator[Reading]:
    """Open a file of envelopes, plain or compressed."""
    with raw_file(path) as raw, unpacked(raw) as bytes_:
        yield Reading(numbered(path.name, bytes_.plain), path.stat().st_size, bytes_.position)


def raw_file(path: Path) -> io.BufferedReader:
    """Open a file as it is; raise SourceError where that is not possible."""
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error


def numbered(file: str, plain: io.BufferedReader) -> Iterator[Line]:
    """Yield what is not blank; lines are numbered as an editor numbers them."""
    number = 0
    with damage_told(file, lambda: number):
        for number, data in enumerate(plain, 1):
            if not data.isspace():
                yield Line(file, number, data)


def file_identity(*paths: Path) -> str:
    """Return hexadecimal digits that change with the path, the size or the modification time of any of the files."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for path in paths:
        state = path.stat()
        digest.update(f"{path.resolve()}\n{state.st_size}\n{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def modified_at(path: Path) -> int:
    """Return the modification time in microseconds since 1970."""
    return path.stat().st_mtime_ns // 1000
