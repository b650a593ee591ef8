"""Opening a source by its command line argument: a folder of files, one file, standard input, or column maps."""

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from indexer.clock import now_microseconds
from indexer.errors import SourceError, WorkFolderError
from indexer.settings import IndexerSettings
from indexer.source.files import decompressed, file_identity, modified_microseconds, numbered_lines, open_line_file
from indexer.source.lines import ChangeStream, LineStream, Source, chained_resources
from indexer.source.spool import ResourceRouter, Spool, resource_from_file_name
from indexer.source.tables.column_map import is_column_map
from indexer.source.tables.rows import table_advice
from indexer.source.tables.table_source import TableSource
from mappings import RESOURCES, Resource

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
