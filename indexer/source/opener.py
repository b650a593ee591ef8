"""Opening a source by its command line argument: a folder of files, one file, standard input, or column maps.

A rebuild copies a stream to temporary files, one for each resource, so that each can be read separately and repeatedly.
"""

import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from typing import cast

import msgspec

from cluster.zstd import zstd
from indexer.clock import now_microseconds
from indexer.errors import InvalidRecordError, SourceError, WorkFolderError, report_folder_errors
from indexer.settings import IndexerSettings
from indexer.source.files import (
    checked_size,
    decompressed,
    file_identity,
    modified_microseconds,
    numbered_lines,
    open_line_file,
)
from indexer.source.lines import (
    ChangeStream,
    LineStream,
    RejectedLine,
    Source,
    SourceLine,
    chained_resources,
    recovered_values,
)
from indexer.source.tables.column_map import is_column_map
from indexer.source.tables.rows import table_advice
from indexer.source.tables.table_source import TableSource
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


_ACCEPTED = (
    "a folder with files such as companies.ndjson or with column maps (.toml), a file ending in .ndjson, .ndjson.gz or "
    ".ndjson.zst, the .toml file of a column map, or - for standard input"
)


@contextmanager
def open_source(
    name: str, *, resource: Resource | None = None, max_record_bytes: int = IndexerSettings.max_record_bytes
) -> Iterator[Source]:
    """Open a folder, a file, a column map or, as `-`, standard input; raise SourceError for anything else.

    `resource` is the default for lines of a file or of standard input that do not name one. A line of more than
    `max_record_bytes` is rejected. Temporary files are removed on exit.
    """
    path = Path(name)
    if name == "-":
        with _temporary_folder() as folder:
            yield _stdin_source(resource, folder, max_record_bytes)
    elif path.is_dir():
        yield _folder_source(path, max_record_bytes)
    elif path.is_file() and path.name.endswith(_NDJSON_SUFFIXES):
        with _temporary_folder() as folder:
            yield _file_source(path, resource, folder, max_record_bytes)
    elif path.is_file() and path.suffix == ".toml":
        yield TableSource([path], max_record_bytes)
    elif path.exists():
        raise SourceError(f"The source {name} is not supported: use {_ACCEPTED}.{table_advice(path)}")
    else:
        raise SourceError(f"The source {name} does not exist: use {_ACCEPTED}.")


def _folder_source(folder: Path, max_bytes: int) -> Source:
    """Return the source of a folder: its column maps, or its files of envelopes."""
    envelopes, maps = FolderSource(folder, max_bytes), sorted(filter(is_column_map, folder.glob("*.toml")))
    if not maps:
        if not any(map(envelopes.has, RESOURCES)) and (advice := table_advice(folder)):
            raise SourceError(f"{folder} has tables without a column map.{advice}")
        return envelopes
    if both := [resource.alias for resource in RESOURCES if envelopes.has(resource)]:
        raise SourceError(f"{folder} has column maps and {both[0]}.ndjson: keep them in folders of their own.")
    return TableSource(maps, max_bytes)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Create a folder that is removed on exit; raise WorkFolderError if that fails."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerage-source-"))
        except OSError as error:
            raise WorkFolderError(
                f"No temporary file can be created: {error.strerror}. Set TMPDIR to a folder with free space."
            ) from error
        yield Path(folder)


_NDJSON_SUFFIXES = (".ndjson", ".ndjson.gz", ".ndjson.zst")


class FolderSource:
    """A folder of `<alias>.ndjson`, each possibly `.gz` or `.zst`."""

    def __init__(self, folder: Path, max_bytes: int = IndexerSettings.max_record_bytes) -> None:
        """`max_bytes` is the limit of a line. Raise SourceError if the path is not a folder."""
        if not folder.is_dir():
            raise SourceError(f"The source {folder} is not a folder: name the folder that holds companies.ndjson.")
        self._folder = folder
        self._max_bytes = max_bytes

    def has(self, resource: Resource) -> bool:
        return bool(self._present(resource))

    def open(self, resource: Resource) -> AbstractContextManager[LineStream]:
        return open_line_file(self.line_file(resource), self._max_bytes, resource)

    def identity(self, resource: Resource) -> str:
        return file_identity(self.line_file(resource))

    def taken_at(self, resource: Resource) -> int:
        """Return when the resource's file was last modified, in microseconds since 1970."""
        return modified_microseconds(self.line_file(resource))

    def changes(self) -> AbstractContextManager[ChangeStream]:
        return chained_resources(self)

    def line_file(self, resource: Resource) -> Path:
        """Return the resource's file; raise SourceError if it does not exist."""
        present = self._present(resource)
        if not present:
            raise SourceError(f"The source {self._folder} has no {resource.alias}.ndjson.")
        return present[0]

    def _present(self, resource: Resource) -> list[Path]:
        names = [self._folder / f"{resource.alias}{suffix}" for suffix in _NDJSON_SUFFIXES]
        present = [path for path in names if path.is_file()]
        if len(present) > 1:
            raise SourceError(f"{present[0]} and {present[1].name} both exist: keep one of them.")
        return present


_STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class StreamSource:
    """A stream of envelopes. Rebuilds spool it once, by resource, in `folder`; updates read it directly.

    `default` is the resource of lines that do not name one. Without a `file_identity` a digest of the content is used.
    """

    name: str
    open_lines: Callable[[], AbstractContextManager[LineStream]]
    default: Resource | None
    folder: Path
    modified_microseconds: int  # since 1970
    max_bytes: int  # of a line
    file_identity: str | None = None

    @cached_property
    def _router(self) -> ResourceRouter:
        return ResourceRouter(self.default)

    @cached_property
    def _spool(self) -> Spool:
        spool = Spool(self.folder, self.name, self._router, self.max_bytes)
        with self.open_lines() as stream:
            spool.fill(stream.lines)
        return spool

    def has(self, resource: Resource) -> bool:
        """Whether any line belongs to the resource; the first call reads the stream to its end."""
        return self._spool.has(resource)

    def open(self, resource: Resource) -> AbstractContextManager[LineStream]:
        return self._spool.open(resource)

    def identity(self, resource: Resource) -> str:
        return self.file_identity or self._spool.identity(resource)

    def taken_at(self, resource: Resource) -> int:  # noqa: ARG002 - the same for all
        """Return when the file was last modified or standard input was opened."""
        return self.modified_microseconds

    @contextmanager
    def changes(self) -> Iterator[ChangeStream]:
        """Yield the lines as they arrive, without spooling them."""
        with self.open_lines() as stream:
            yield ChangeStream(self._router.route(stream.lines), stream.total, stream.position, self.file_identity)


def _file_source(path: Path, default: Resource | None, folder: Path, max_bytes: int) -> StreamSource:
    """Return the source of one file; without a default the resource is derived from the file name."""
    return StreamSource(
        name=path.name,
        open_lines=lambda: open_line_file(path, max_bytes),
        default=default or resource_from_file_name(path.name),
        folder=folder,
        modified_microseconds=modified_microseconds(path),
        max_bytes=max_bytes,
        file_identity=file_identity(path),
    )


def _stdin_source(default: Resource | None, folder: Path, max_bytes: int) -> StreamSource:
    return StreamSource(_STANDARD_INPUT, _StandardInput(max_bytes).open, default, folder, now_microseconds(), max_bytes)


class _StandardInput:
    """Standard input, which can be opened once."""

    def __init__(self, max_bytes: int) -> None:
        self._is_open = False
        self._max_bytes = max_bytes

    @contextmanager
    def open(self) -> Iterator[LineStream]:
        if self._is_open:
            raise SourceError("Standard input has already been read: use a file to read it twice.")
        self._is_open = True
        # Detached, since the interpreter closes `sys.stdin` at exit and aborts if a thread is still reading it.
        with decompressed(cast("io.TextIOWrapper[io.BufferedReader]", sys.stdin).detach()) as plain:
            yield LineStream(numbered_lines(_STANDARD_INPUT, plain.reader, self._max_bytes), 0, plain.position)
