"""One file or standard input, with envelopes of one or several resources."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from indexer.clock import now_microseconds
from indexer.errors import SourceError
from indexer.source.compression import decompressed
from indexer.source.files import file_identity, modified_microseconds, numbered_lines, open_line_file
from indexer.source.lines import ChangeStream, LineStream
from indexer.source.resource_router import ResourceRouter, resource_from_file_name
from indexer.source.spool import Spool
from mappings import Resource

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
        """Open the resource's lines."""
        return self._spool.open(resource)

    def identity(self, resource: Resource) -> str:
        """Return the fingerprint of the file, or of the lines that standard input had."""
        return self.file_identity or self._spool.identity(resource)

    def taken_at(self, resource: Resource) -> int:  # noqa: ARG002 - the same for all
        """Return when the file was last modified or standard input was opened."""
        return self.modified_microseconds

    @contextmanager
    def changes(self) -> Iterator[ChangeStream]:
        """Yield the lines as they arrive, without spooling them."""
        with self.open_lines() as stream:
            yield ChangeStream(self._router.route(stream.lines), stream.total, stream.position, self.file_identity)


def file_source(path: Path, default: Resource | None, folder: Path, max_bytes: int) -> StreamSource:
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


def stdin_source(default: Resource | None, folder: Path, max_bytes: int) -> StreamSource:
    """Return the source of standard input."""
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
