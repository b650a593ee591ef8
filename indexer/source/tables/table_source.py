"""Tables as a source: the column maps of one or several resources, each over one or several files."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from indexer.clock import now_microseconds
from indexer.source.files import file_identity, modified_microseconds
from indexer.source.lines import ChangeStream, LineStream, RejectedLine, Source, SourceLine, chained_resources
from indexer.source.tables.column_map import read_column_maps
from indexer.source.tables.mapped_tables import MappedTables
from mappings import COMPANY, Resource

_encode = msgspec.json.Encoder().encode
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def _time(microseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def _note(found: str, key: str, files: list[tuple[str, str]]) -> str:
    (name, words), others = files[0], len(files) - 1
    subject = f"{name} and {others:,} more are" if others else f"{name} is"
    example = f", as in {words}" if words else ""
    return f"{subject} {found}{example}: if that is wrong, set `{key}`"


class TableSource:
    """The rows of the tables of one or several column maps, and the companies that these may declare."""

    def __init__(self, paths: list[Path], max_bytes: int) -> None:
        """Check the column maps against the headers of their files; raise SourceError if they do not match.

        `max_bytes` is the limit of a row.
        """
        self._opened = now_microseconds()
        undated = _time(self._opened).isoformat()
        maps = [column_map for path in paths for column_map in read_column_maps(path)]
        self._tables = [MappedTables(column_map, max_bytes, undated) for column_map in maps]
        self._companies = {map_.company.platform_company_id: map_ for map_ in maps if map_.company is not None}
        for table in self._tables:
            for file in table.files:
                with table.open(file):
                    pass

    @property
    def companies(self) -> tuple[str, ...]:
        """The companies that the column maps declare to cover, by key or numeric id."""
        return tuple(dict.fromkeys(name for table in self._tables for name in table.column_map.declared.companies))

    @property
    def notes(self) -> list[str]:
        """Sentences about what was detected, without full stops; files with the same properties share one."""
        noted: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for file in (file for table in self._tables for file in table.files):
            for found, key, words in file.form.notes:
                noted.setdefault((found, key), []).append((file.name, words))
        return [_note(found, key, files) for (found, key), files in noted.items()]

    @property
    def skipped(self) -> dict[str, int]:
        """How many rows `skip_if` left out in the last complete pass, by resource."""
        rows: Counter[str] = Counter()
        for table in self._tables:
            rows[table.resource.alias] += table.skipped
        return {resource: count for resource, count in rows.items() if count}

    def has(self, resource: Resource) -> bool:
        """Whether rows belong to the resource, or a column map declares a company."""
        return bool(self._of(resource)) or (resource is COMPANY and bool(self._companies))

    @contextmanager
    def open(self, resource: Resource) -> Iterator[LineStream]:
        """Open the companies of the column maps, then the rows."""
        chain = _TableChain(self._of(resource))
        companies = list(self._company_lines()) if resource is COMPANY else []
        lines = chain.lines(companies)
        try:
            yield LineStream(lines, sum(file.size for table in chain.tables for file in table.files), chain.position)
        finally:
            # A generator that another thread is reading cannot be closed; that thread drops it after the current line.
            with suppress(ValueError):
                lines.close()

    def identity(self, resource: Resource) -> str:
        """Return a fingerprint of the files that the resource is read from."""
        return file_identity(*self._paths(resource))

    def taken_at(self, resource: Resource) -> int:
        """Return when a file of the resource was last modified, in microseconds since 1970.

        Where content decides, it is the time of the run, which is that of changed records.
        """
        tables = self._of(resource)
        if not all(table.is_dated for table in tables):
            return self._opened
        paths = [file.path for table in tables for file in table.files] or self._paths(resource)
        return max(map(modified_microseconds, paths))

    def changes(self) -> AbstractContextManager[ChangeStream]:
        """Open the companies, then the other rows."""
        return chained_resources(self)

    def _of(self, resource: Resource) -> list[MappedTables]:
        return [table for table in self._tables if table.resource is resource]

    def _paths(self, resource: Resource) -> list[Path]:
        tables = self._of(resource)
        maps = [table.column_map.path for table in tables]
        maps += [declaring.path for declaring in self._companies.values()] if resource is COMPANY else []
        return list(dict.fromkeys([*maps, *(file.path for table in tables for file in table.files)]))

    def _company_lines(self) -> Iterator[SourceLine]:
        """Yield the companies of the column maps; their `updated_at` is the modification time of the map."""
        for number, declaring in enumerate(self._companies.values(), 1):
            envelope = {"updated_at": _time(modified_microseconds(declaring.path)), "record": declaring.company}
            yield SourceLine(declaring.path.name, number, _encode(envelope))


@dataclass
class _TableChain:
    """The files of several column maps of one resource, one after the other."""

    tables: list[MappedTables]
    done: int = 0
    current: Callable[[], int] = int  # 0 while nothing is open

    def position(self) -> int:
        """Return how many stored bytes have been read."""
        return self.done + self.current()

    def lines(self, first: list[SourceLine]) -> Generator[SourceLine | RejectedLine]:
        """Yield some lines, then those of the files, with increasing positions."""
        yield from first
        before = len(first)
        for table in self.tables:
            table.skipped = 0
            for file in table.files:
                with table.open(file, before) as opened:
                    self.current = opened.position
                    for line in opened.lines:
                        yield line
                        before = line.position
                self.done, self.current = self.done + file.size, int


def skipped_rows(source: Source) -> dict[str, int]:
    """Return how many rows a source left out by `skip_if` in its last complete pass, by resource."""
    return source.skipped if isinstance(source, TableSource) else {}
