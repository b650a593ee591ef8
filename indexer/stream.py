"""One file or standard input, with envelopes of one resource or of several."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from indexer.address import Address, resource_of_file
from indexer.errors import SourceError
from indexer.files import file_identity, modified_at, numbered, open_file
from indexer.packed import unpacked
from indexer.source import Feed, Reading
from indexer.spool import Spool

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from mappings import Resource

_STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Stream:
    """Envelopes behind each other. For rebuilds they are sorted once into `folder`; as changes they pass by.

    `default` is the resource of lines that name none, `file_identity` is None where only the content can tell.
    """

    name: str
    open_lines: Callable[[], AbstractContextManager[Reading]]
    default: Resource | None
    folder: Path
    time: int  # microseconds since 1970
    file_identity: str | None = None

    @cached_property
    def _address(self) -> Address:
        return Address(self.default)

    @cached_property
    def _spool(self) -> Spool:
        spool = Spool(self.folder, self.name, self._address)
        with self.open_lines() as reading:
            spool.fill(reading.lines)
        return spool

    def has(self, resource: Resource) -> bool:
        """Whether any line is of the resource; the first question reads the stream to its end."""
        return self._spool.has(resource)

    def open(self, resource: Resource) -> AbstractContextManager[Reading]:
        """Open the resource's lines."""
        return self._spool.open(resource)

    def identity(self, resource: Resource) -> str:
        """Return what changes with the file, or with what came through standard input."""
        return self.file_identity or self._spool.identity(resource)

    def taken_at(self, resource: Resource) -> int:  # noqa: ARG002 - the same for all
        """Return when the file was last written or standard input opened."""
        return self.time

    @contextmanager
    def changes(self) -> Iterator[Feed]:
        """Pass the lines on as they come."""
        with self.open_lines() as reading:
            yield Feed(self._address.each(reading.lines), reading.total, reading.position, self.file_identity)


def single_file(path: Path, default: Resource | None, folder: Path) -> Stream:
    """Return one file of envelopes; without a default its name may tell the resource."""
    return Stream(
        name=path.name,
        open_lines=lambda: open_file(path),
        default=default or resource_of_file(path.name),
        folder=folder,
        time=modified_at(path),
        file_identity=file_identity(path),
    )


def standard_input(default: Resource | None, folder: Path) -> Stream:
    """Return the envelopes that are piped into this process."""
    return Stream(_STANDARD_INPUT, _Once().open, default, folder, time.time_ns() // 1000)


class _Once:
    """Standard input, which can be opened once."""

    def __init__(self) -> None:
        self._is_open = False

    @contextmanager
    def open(self) -> Iterator[Reading]:
        if self._is_open:
            raise SourceError("Standard input has been read already: give a file to read it twice.")
        self._is_open = True
        # The interpreter closes `sys.stdin` as it ends, and dies where a thread still waits in it for a line.
        with unpacked(cast("io.TextIOWrapper[io.BufferedReader]", sys.stdin).detach()) as bytes_:
            yield Reading(numbered(_STANDARD_INPUT, bytes_.plain), 0, bytes_.position)
