"""Typed tables as views of a copy: they cost nothing when records are written, and follow from them.

Their SQL is also that of DuckDB, which runs the views of a SQLite file that it attaches. Columns have both spellings.
"""

import sqlite3
from collections.abc import Iterator

from brokerage_feed.tables.columns import (
    FEED_COLUMNS,
    LIST_COLUMNS,
    ColumnKind,
    Spelling,
    TypedColumn,
    TypedTable,
    typed_tables,
)

# A view without it is not replaced: a user has created it.
_MARK = "/* by brokerage-feed */"
_CASTS = {ColumnKind.INTEGER: "BIGINT", ColumnKind.NUMBER: "DOUBLE", ColumnKind.BOOLEAN: "BOOLEAN"}
# The operator is that of DuckDB, too; SQLite has it since 3.38. Dates and times are texts: SQLite has no type for them.
_VALUE = "{} ->> '$.{}'" if sqlite3.sqlite_version_info >= (3, 38) else "json_extract({}, '$.{}')"


def stored_table(resource: str) -> str:
    """Return the name of the table with the records of a resource, below its view."""
    return f"{resource}_records"


def renew_views(connection: sqlite3.Connection, resource: str) -> None:
    """Create the views of a resource, and replace those of an earlier version."""
    for table in typed_tables(resource):
        statement = view_statement(resource, table)
        found = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
        if found is None or (found[0] != statement and _MARK in (found[0] or "")):
            connection.execute(f"DROP VIEW IF EXISTS {table.name}")
            connection.execute(statement)


def view_statement(resource: str, table: TypedTable) -> str:
    """Return the statement that creates the view of a table."""
    if table.member is None:
        leading, source = ", ".join((*FEED_COLUMNS, "record")), stored_table(resource)
        columns = _columns(table, "record")
    else:
        identifier, position = LIST_COLUMNS
        leading = f"stored.id AS {identifier}, CAST(item.key AS BIGINT) AS {position}"
        source = f"{stored_table(resource)} AS stored, json_each(stored.record, '$.{table.member}') AS item"
        columns = _columns(table, "item.value")
    # Names of the package only.
    return f"CREATE VIEW {table.name} AS {_MARK} SELECT {leading}, {', '.join(columns)} FROM {source}"  # noqa: S608


def _columns(table: TypedTable, value: str) -> Iterator[str]:
    """Yield the columns, in both spellings; SQLite does not distinguish `City` from `city`."""
    for column in table.columns:
        names = {(name := column.name(spelling)).lower(): name for spelling in reversed(Spelling)}
        for name in names.values():
            yield f'{_expression(column, value)} AS "{name}"'


def _expression(column: TypedColumn, value: str) -> str:
    path = ".".join(column.path)
    if column.kind is ColumnKind.TEXTS:
        return f"json_extract({value}, '$.{path}')"
    text = _VALUE.format(value, path)
    return f"CAST({text} AS {_CASTS[column.kind]})" if column.kind in _CASTS else text
