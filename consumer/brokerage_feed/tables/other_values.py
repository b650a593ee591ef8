"""Values of members without a type, as texts: Arrow reads members of one type only."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from brokerage_feed.tables.columns import ColumnKind, TypedColumn, TypedTable

_NULL = msgspec.Raw(b"null")


class OtherValues:
    """Reads the columns of kind `ANY` of a table from the lines of a snapshot."""

    def __init__(self, table: TypedTable) -> None:
        """Compile a decoder that skips everything else."""
        self._member = table.member
        self.columns = tuple(column for column in table.columns if column.kind is ColumnKind.ANY)
        members = _members([column.path for column in self.columns])
        if table.member is not None:
            members = [(table.member, list[_struct(members)] | None, None)]  # type: ignore[misc]
        self._decoder = msgspec.json.Decoder(_struct([("record", _struct(members))]))

    def read(self, lines: bytes) -> list[list[str | None]]:
        """Return the texts of each column, in the order of rows."""
        if not self.columns:
            return []
        rows: Iterable[Any] = [line.record for line in self._decoder.decode_lines(lines)]
        if self._member is not None:
            rows = [item for record in rows for item in getattr(record, self._member) or ()]
        return [[_text(row, column) for row in rows] for column in self.columns]


def _members(paths: Sequence[tuple[str, ...]]) -> list[tuple[str, Any, Any]]:
    """Return the members of a type that has the values at these paths."""
    plain: list[tuple[str, Any, Any]] = [(path[0], msgspec.Raw, _NULL) for path in paths if len(path) == 1]
    below: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        if rest:
            below.setdefault(name, []).append(tuple(rest))
    return plain + [(name, _struct(_members(inner)) | None, None) for name, inner in below.items()]


def _struct(members: Sequence[tuple[str, Any, Any] | tuple[str, Any]]) -> Any:
    return msgspec.defstruct("Members", members, gc=False)


def _text(row: Any, column: TypedColumn) -> str | None:
    """Return a text as it is, and any other value as JSON."""
    for name in column.path:
        row = _NULL if row is None else getattr(row, name)
    value = bytes(row)
    if value == b"null":
        return None
    return str(msgspec.json.decode(value)) if value.startswith(b'"') else value.decode()
