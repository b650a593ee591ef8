"""Identifiers and references of a source, on disk: which lines share an identifier, and which references dangle."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from indexer.documents.builder import PendingDocument
from mappings import COMPANY, Resource
from mappings.references import declared_references

_MAX_EXAMPLES = 5
_CACHE_KIB = 16_384
_SCHEMA = f"""
PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE lines (resource TEXT, id TEXT, content INTEGER, company TEXT, file TEXT, number INTEGER);
CREATE TABLE refs (resource TEXT, field TEXT, target TEXT, value TEXT, count INTEGER, file TEXT, number INTEGER,
                   PRIMARY KEY (resource, field, value)) WITHOUT ROWID;
"""
_MERGED = """
SELECT id, COUNT(*) AS lines, COUNT(DISTINCT content) AS contents, COUNT(DISTINCT company) AS companies,
       MIN(file || ':' || number), MAX(file || ':' || number)
FROM lines WHERE resource = ? GROUP BY id HAVING lines > 1
"""
_DANGLING = """
SELECT value, count, file, number FROM refs
WHERE resource = ? AND field = ? AND NOT EXISTS (SELECT 1 FROM lines WHERE lines.resource = target AND id = value)
"""


@dataclass
class MergedIdentifiers:
    """Identifiers with more than one line: how many, how many with different contents, and some examples."""

    identifiers: int
    lines: int
    differing: int
    of_several_companies: int
    examples: list[str] = dataclasses.field(default_factory=list)


@dataclass
class ReferenceCheck:
    """A field that refers to another resource: how many different values dangle, and in how many lines.

    Without records of the target in the source, `is_checked` is false.
    """

    field: str
    target: str
    values: int
    is_checked: bool
    dangling: int = 0
    lines: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)


@cache
def _references_of(resource: Resource) -> list[tuple[str, Resource]]:
    """Return the members that refer to other resources; references to companies are checked line by line."""
    return [
        (member, reference.target)
        for reference in declared_references()
        if reference.resource is resource and reference.target is not COMPANY
        for member in reference.field.sources
    ]


@contextmanager
def open_ledger() -> Iterator[IdentifierLedger]:
    """Open an empty ledger, which is removed on exit."""
    # A database without a name is a temporary file.
    with closing(sqlite3.connect("", check_same_thread=False)) as database:
        database.executescript(_SCHEMA)
        yield IdentifierLedger(database)


class IdentifierLedger:
    """The identifiers and references of the lines that were added."""

    def __init__(self, database: sqlite3.Connection) -> None:
        """Use an empty database."""
        self._database = database

    def add(self, resource: Resource, documents: list[tuple[PendingDocument, dict[str, Any]]]) -> None:
        """Add the live records of some lines."""
        rows = [
            (resource.alias, one.id, one.content, one.company, one.line.file, one.line.number) for one, _ in documents
        ]
        self._database.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", rows)
        references = [
            (resource.alias, name, target.alias, str(record[name]), document.line.file, document.line.number)
            for document, record in documents
            for name, target in _references_of(resource)
            if record.get(name)
        ]
        self._database.executemany(
            "INSERT INTO refs VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET count = count + 1", references
        )

    def index(self) -> None:
        """Prepare the look-ups, once all lines have been added."""
        self._database.execute("CREATE INDEX identifiers ON lines (resource, id)")

    def merged(self, resource: Resource) -> MergedIdentifiers:
        """Return the identifiers of a resource that several lines have."""
        sums = f"SELECT COUNT(*), SUM(lines), SUM(contents > 1), SUM(companies > 1) FROM ({_MERGED})"  # noqa: S608 - fixed
        counts = [int(count or 0) for count in self._database.execute(sums, (resource.alias,)).fetchone()]
        examples = self._database.execute(
            f"{_MERGED} ORDER BY contents DESC, lines DESC LIMIT {_MAX_EXAMPLES}", (resource.alias,)
        )
        shown = [f"{name}: {lines} lines, such as {first} and {last}" for name, lines, _, _, first, last in examples]
        return MergedIdentifiers(counts[0], counts[1], counts[2], counts[3], shown)

    def references(self, resource: Resource) -> list[ReferenceCheck]:
        """Return the references of a resource."""
        return [self._reference(resource, name, target) for name, target in _references_of(resource)]

    def _reference(self, resource: Resource, name: str, target: Resource) -> ReferenceCheck:
        one = self._database.execute
        (values,) = one("SELECT COUNT(*) FROM refs WHERE resource = ? AND field = ?", (resource.alias, name)).fetchone()
        has_target = one("SELECT 1 FROM lines WHERE resource = ? LIMIT 1", (target.alias,)).fetchone() is not None
        check = ReferenceCheck(name, target.alias, values, has_target)
        if has_target:
            counted = one(f"SELECT COUNT(*), SUM(count) FROM ({_DANGLING})", (resource.alias, name)).fetchone()  # noqa: S608 - fixed
            check.dangling, check.lines = int(counted[0]), int(counted[1] or 0)
            rows = one(f"{_DANGLING} ORDER BY count DESC LIMIT {_MAX_EXAMPLES}", (resource.alias, name))
            check.examples = [f"{value}: {count} lines, such as {file}:{line}" for value, count, file, line in rows]
        return check
