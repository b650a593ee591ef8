"""A temporary copy of a stream, split by resource, so that each resource can be read separately and repeatedly.

The resource of a line is the one that its envelope names, else the default of its file.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from pathlib import Path

import msgspec

from cluster.zstd import zstd
from indexer.errors import InvalidRecordError, SourceError, report_folder_errors
from indexer.source.files import checked_size, open_line_file
from indexer.source.lines import LineStream, RejectedLine, SourceLine, recovered_values
from mappings import RESOURCES, Resource

_ALIASES = ", ".join(resource.alias for resource in RESOURCES)
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


def resource_from_file_name(name: str) -> Resource | None:
    """Return the resource whose alias is the part of a file name before its first dot or hyphen."""
    return _BY_ALIAS.get(re.split(r"[.-]", name, maxsplit=1)[0])


class _ResourceName(msgspec.Struct, gc=False):
    resource: str | None = None


class ResourceRouter:
    def __init__(self, default: Resource | None) -> None:
        self._default = default
        self._decode = msgspec.json.Decoder(_ResourceName).decode

    def route(self, lines: Iterable[SourceLine | RejectedLine]) -> Iterator[tuple[Resource, SourceLine] | RejectedLine]:
        """Yield each line with its resource; reject lines without one."""
        for line in lines:
            if isinstance(line, RejectedLine):
                yield line._replace(resource=line.resource or self._recovered(line.data) or self._default)
                continue
            try:
                yield self._resource(line.data), line
            except InvalidRecordError as error:
                yield RejectedLine(line, error, None)

    def _resource(self, data: bytes) -> Resource:
        try:
            name = self._decode(data).resource
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The decoder of the resource will fail too, with a more specific message.
            if likely := self._recovered(data) or self._default:
                return likely
            raise InvalidRecordError("resource", f"cannot be read: {error}") from None
        if name is None and self._default is not None:
            return self._default
        if name is None:
            raise InvalidRecordError("resource", f"is missing: use one of {_ALIASES}")
        if name not in _BY_ALIAS:
            raise InvalidRecordError("resource", f"is {name!r}: use one of {_ALIASES}")
        return _BY_ALIAS[name]

    def _recovered(self, data: bytes) -> Resource | None:
        """Return the only resource that a damaged line names."""
        found = {_BY_ALIAS[name] for name in recovered_values(data, "resource") if name in _BY_ALIAS}
        return found.pop() if len(found) == 1 else None


_LEVEL = 1
_BUFFER_BYTES = 1 << 17
_REJECTED = "rejected"
_NUMBER_BYTES = 21  # before the envelope: its number and a space


class Spool:
    """One compressed file per resource in a folder that the caller removes. Its lines are `NUMBER ENVELOPE`.

    Lines without a resource are reported with the resource that has the most lines, where their share of the
    dead-letter limit is smallest.
    """

    def __init__(self, folder: Path, file: str, router: ResourceRouter, max_bytes: int) -> None:
        """`file` is the name of the stream in messages, `max_bytes` the limit of a line."""
        self._folder = folder
        self._file = file
        self._router = router
        self._max_bytes = max_bytes
        self._counts: Counter[Resource] = Counter()
        self._stray = 0  # lines without a resource

    def fill(self, lines: Iterable[SourceLine | RejectedLine]) -> None:
        """Read the stream to its end; raise SourceError if no line has a resource, or WorkFolderError."""
        rejected: RejectedLine | None = None
        writers: dict[str, io.BufferedWriter[zstd.ZstdFile]] = {}
        with report_folder_errors(self._folder, "Set TMPDIR to a folder with more space."), ExitStack() as files:
            for item in self._router.route(lines):
                if isinstance(item, RejectedLine):
                    resource, line, rejected = item.resource, item.line, rejected or item
                else:
                    resource, line = item
                name = self._count(resource)
                if name not in writers:
                    writers[name] = files.enter_context(_writer(self._path(name)))
                writers[name].write(b"%d %b\n" % (line.number, line.data.removesuffix(b"\n")))
        if rejected and not self._counts:
            problem = f"line {rejected.number}: {rejected.error}"
            raise SourceError(f"{self._file} has no lines of a known resource; {problem}.")

    def has(self, resource: Resource) -> bool:
        return self._counts[resource] > 0

    @contextmanager
    def open(self, resource: Resource) -> Iterator[LineStream]:
        with ExitStack() as files:
            limit = self._max_bytes + _NUMBER_BYTES
            streams = [files.enter_context(open_line_file(path, limit)) for path in self._paths(resource)]
            yield LineStream(
                lines=self._lines(streams),
                total=sum(stream.total for stream in streams),
                position=lambda: sum(stream.position() for stream in streams),
                stray=0 if self._reports_stray(resource) else self._stray,
            )

    def identity(self, resource: Resource) -> str:
        digests = []
        for path in self._paths(resource):
            with path.open("rb") as spooled:
                digests.append(file_digest(spooled, "blake2b").hexdigest()[:32])
        return "".join(digests)

    def _lines(self, streams: list[LineStream]) -> Iterator[SourceLine | RejectedLine]:
        routed, *rejected = [map(self._original, stream.lines) for stream in streams]
        yield from routed
        for lines in rejected:
            # The router rejects them again, for the same reasons.
            yield from (item for item in self._router.route(lines) if isinstance(item, RejectedLine))

    def _original(self, line: SourceLine | RejectedLine) -> SourceLine | RejectedLine:
        number, _, data = line.data.partition(b" ")
        return checked_size(SourceLine(self._file, int(number), data), self._max_bytes)

    def _paths(self, resource: Resource) -> list[Path]:
        names = [resource.alias]
        if self._stray and self._reports_stray(resource):
            names.append(_REJECTED)
        return [self._path(name) for name in names]

    def _reports_stray(self, resource: Resource) -> bool:
        return self._counts.most_common(1)[0][0] is resource

    def _count(self, resource: Resource | None) -> str:
        """Count a line, and return the name of the file that it belongs to."""
        if resource is None:
            self._stray += 1
            return _REJECTED
        self._counts[resource] += 1
        return resource.alias

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zst"


@contextmanager
def _writer(path: Path) -> Iterator["io.BufferedWriter[zstd.ZstdFile]"]:
    # Buffered, since each call of the compressor costs more than a line.
    with (
        path.open("xb") as file,
        zstd.ZstdFile(file, "w", level=_LEVEL) as packed,
        io.BufferedWriter(packed, _BUFFER_BYTES) as writer,
    ):
        yield writer
