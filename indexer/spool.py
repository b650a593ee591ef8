"""A temporary copy of a stream, sorted by resource, so that each resource can be read on its own and again."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from typing import TYPE_CHECKING

import zstandard

from indexer.errors import SourceError
from indexer.files import open_file
from indexer.source import Fault, Line, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from indexer.address import Address
    from mappings import Resource

_LEVEL = 1
_FAULTS = "faults"


class Spool:
    """One compressed file per resource in a folder that somebody else removes. A line there is `NUMBER ENVELOPE`.

    Lines without a resource are kept with the resource that has the most lines, whose build then reports them: there
    they weigh against as many good ones as there are.
    """

    def __init__(self, folder: Path, file: str, address: Address) -> None:
        """Hold nothing yet; `file` is what the stream is called in messages."""
        self._folder = folder
        self._file = file
        self._address = address
        self._counts: Counter[Resource] = Counter()

    def fill(self, lines: Iterable[Line | Fault]) -> None:
        """Read the stream to its end; raise SourceError when all of its lines are faults."""
        first: Fault | None = None
        with ExitStack() as files:
            writers: dict[str, zstandard.ZstdCompressionWriter] = {}
            for item in self._address.each(lines):
                if isinstance(item, Fault):
                    first = first or item
                    name, line = _FAULTS, item.line
                else:
                    name, line = item[0].alias, item[1]
                    self._counts[item[0]] += 1
                if name not in writers:
                    writers[name] = files.enter_context(_writer(self._path(name)))
                writers[name].write(b"%d %b\n" % (line.number, line.data.rstrip(b"\r\n")))
        if first and not self._counts:
            raise SourceError(f"{self._file} has no line of a known resource; line {first.line.number}: {first.error}.")

    def has(self, resource: Resource) -> bool:
        """Whether any line is of the resource."""
        return self._counts[resource] > 0

    @contextmanager
    def open(self, resource: Resource) -> Iterator[Reading]:
        """Open the lines of a resource under their numbers in the stream."""
        with ExitStack() as files:
            readings = [files.enter_context(open_file(path)) for path in self._paths(resource)]
            yield Reading(
                lines=self._lines(readings, resource),
                total=sum(reading.total for reading in readings),
                position=lambda: sum(reading.position() for reading in readings),
            )

    def identity(self, resource: Resource) -> str:
        """Return a digest of the resource's lines."""
        digests = []
        for path in self._paths(resource):
            with path.open("rb") as spooled:
                digests.append(file_digest(spooled, "blake2b").hexdigest()[:32])
        return "".join(digests)

    def _lines(self, readings: list[Reading], resource: Resource) -> Iterator[Line | Fault]:
        sorted_, *faults = [map(self._original, reading.sound) for reading in readings]
        yield from sorted_
        for lines in faults:
            # Spooled as faults, they are faults again, now with the resource that reports them.
            found = self._address.each(lines)
            yield from (item._replace(resource=resource) for item in found if isinstance(item, Fault))

    def _original(self, line: Line) -> Line:
        number, _, data = line.data.partition(b" ")
        return Line(self._file, int(number), data)

    def _paths(self, resource: Resource) -> list[Path]:
        names = [resource.alias]
        if self._counts.most_common(1)[0][0] is resource and self._path(_FAULTS).exists():
            names.append(_FAULTS)
        return [self._path(name) for name in names]

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zst"


@contextmanager
def _writer(path: Path) -> Iterator[zstandard.ZstdCompressionWriter]:
    with path.open("xb") as file, zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file) as writer:
        yield writer
