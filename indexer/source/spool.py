"""A temporary copy of a stream, split by resource, so that each resource can be read separately and repeatedly."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from typing import TYPE_CHECKING

import zstandard

from indexer.errors import SourceError
from indexer.source.files import open_line_file
from indexer.source.lines import LineStream, RejectedLine, SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from indexer.source.resource_router import ResourceRouter
    from mappings import Resource

_LEVEL = 1
_REJECTED = "rejected"


class Spool:
    """One compressed file per resource in a folder that the caller removes. Its lines are `NUMBER ENVELOPE`.

    Lines without a resource are reported with the resource that has the most lines, where their share of the
    dead-letter limit is smallest.
    """

    def __init__(self, folder: Path, file: str, router: ResourceRouter) -> None:
        """`file` is the name of the stream in messages."""
        self._folder = folder
        self._file = file
        self._router = router
        self._counts: Counter[Resource] = Counter()

    def fill(self, lines: Iterable[SourceLine | RejectedLine]) -> None:
        """Read the stream to its end; raise SourceError if no line has a resource."""
        rejected: RejectedLine | None = None
        with ExitStack() as files:
            writers: dict[str, zstandard.ZstdCompressionWriter] = {}
            for item in self._router.route(lines):
                if isinstance(item, RejectedLine):
                    rejected = rejected or item
                    name, line = _REJECTED, item.line
                else:
                    name, line = item[0].alias, item[1]
                    self._counts[item[0]] += 1
                if name not in writers:
                    writers[name] = files.enter_context(_writer(self._path(name)))
                writers[name].write(b"%d %b\n" % (line.number, line.data.rstrip(b"\r\n")))
        if rejected and not self._counts:
            problem = f"line {rejected.number}: {rejected.error}"
            raise SourceError(f"{self._file} has no lines of a known resource; {problem}.")

    def has(self, resource: Resource) -> bool:
        """Whether any line belongs to the resource."""
        return self._counts[resource] > 0

    @contextmanager
    def open(self, resource: Resource) -> Iterator[LineStream]:
        """Open the lines of a resource, with their numbers in the stream."""
        with ExitStack() as files:
            streams = [files.enter_context(open_line_file(path)) for path in self._paths(resource)]
            yield LineStream(
                lines=self._lines(streams, resource),
                total=sum(stream.total for stream in streams),
                position=lambda: sum(stream.position() for stream in streams),
            )

    def identity(self, resource: Resource) -> str:
        """Return a digest of the resource's lines."""
        digests = []
        for path in self._paths(resource):
            with path.open("rb") as spooled:
                digests.append(file_digest(spooled, "blake2b").hexdigest()[:32])
        return "".join(digests)

    def _lines(self, streams: list[LineStream], resource: Resource) -> Iterator[SourceLine | RejectedLine]:
        routed, *rejected = [map(self._original, stream.accepted_lines) for stream in streams]
        yield from routed
        for lines in rejected:
            # The router rejects them again, for the same reasons; they now belong to the resource that reports them.
            items = self._router.route(lines)
            yield from (item._replace(resource=resource) for item in items if isinstance(item, RejectedLine))

    def _original(self, line: SourceLine) -> SourceLine:
        number, _, data = line.data.partition(b" ")
        return SourceLine(self._file, int(number), data)

    def _paths(self, resource: Resource) -> list[Path]:
        names = [resource.alias]
        if self._counts.most_common(1)[0][0] is resource and self._path(_REJECTED).exists():
            names.append(_REJECTED)
        return [self._path(name) for name in names]

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zst"


@contextmanager
def _writer(path: Path) -> Iterator[zstandard.ZstdCompressionWriter]:
    with path.open("xb") as file, zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file) as writer:
        yield writer
