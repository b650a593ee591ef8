"""Where envelopes come from: a folder with one NDJSON file per resource, plain, gzip or zstd."""

from __future__ import annotations

import gzip
import io
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol, cast

import zstandard

from indexer.errors import SourceError
from indexer.frames import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from mappings import Resource

SUFFIXES = ("", ".gz", ".zst")


class Line(NamedTuple):
    """One envelope as it came, and where it stands."""

    file: str
    number: int
    data: bytes


@dataclass(frozen=True)
class Reading:
    """An open source of one resource: its lines, and how far into its `total` bytes on disk they have been read."""

    lines: Iterator[Line]
    total: int
    position: Callable[[], int]


class Source(Protocol):
    """Anything that yields envelopes; it may be opened more than once and then yields the same."""

    def has(self, resource: Resource) -> bool:
        """Whether the source says anything about the resource."""

    def open(self, resource: Resource) -> AbstractContextManager[Reading]:
        """Open the resource's envelopes for one pass."""


class Directory:
    """A folder of `<alias>.ndjson`, each possibly `.gz` or `.zst`."""

    def __init__(self, folder: Path) -> None:
        """Raise SourceError for what is not a folder."""
        if not folder.is_dir():
            raise SourceError(f"The source {folder} is not a folder: name the folder that holds companies.ndjson.")
        self._folder = folder

    def has(self, resource: Resource) -> bool:
        """Whether there is a file for the resource."""
        return self._path(resource) is not None

    def _path(self, resource: Resource) -> Path | None:
        names = [self._folder / f"{resource.alias}.ndjson{suffix}" for suffix in SUFFIXES]
        present = [path for path in names if path.is_file()]
        if len(present) > 1:
            raise SourceError(f"{present[0]} and {present[1].name} are both there: keep one of them.")
        return present[0] if present else None

    @contextmanager
    def open(self, resource: Resource) -> Iterator[Reading]:
        """Open the resource's file."""
        path = self._path(resource)
        if path is None:
            raise SourceError(f"The source {self._folder} has no {resource.alias}.ndjson.")
        with path.open("rb") as raw, _decompressed(path, raw) as plain:
            yield Reading(_lines(path.name, plain), path.stat().st_size, raw.tell)


@contextmanager
def _decompressed(path: Path, raw: IO[bytes]) -> Iterator[IO[bytes]]:
    if path.suffix == ".gz":
        with gzip.open(raw) as plain:
            yield cast("IO[bytes]", plain)
    elif path.suffix == ".zst":
        with io.BufferedReader(Frames(raw), 1 << 20) as plain:
            yield plain
    else:
        yield raw


def _lines(file: str, plain: IO[bytes]) -> Iterator[Line]:
    """Yield what is not blank; lines are numbered as an editor numbers them."""
    number = 0
    try:
        for number, data in enumerate(plain, 1):
            if not data.isspace():
                yield Line(file, number, data)
    except (OSError, EOFError, zstandard.ZstdError) as error:
        raise SourceError(f"{file} cannot be read behind line {number}: {error}.") from error
