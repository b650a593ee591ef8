"""The typed tables of a resource: its own, with a row per record, and one for each list of objects in its records.

Columns follow from the typed records. An object within a record becomes a column for each of its members. Numbers that
the record rounds, or has as texts, have a column more, `lot_size_acres_decimal`, with the source's value. Names have
two spellings: `list_price`, as with `underscore_response`, and `ListPrice`, as the contract has it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from brokerage_feed.records import RECORD_TYPES, Date, DateTime, DecimalText, Rounded

# Before a capital that follows a small letter or digit, and before the last capital of a run before a small letter.
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# What the feed says of a record, in the columns before those of its members; `record` is the last column.
FEED_COLUMNS = ("id", "company", "sequence", "time", "content")
# Of the table of a list: the record's identifier, and the index of the object in the list.
LIST_COLUMNS = ("id", "position")


class Spelling(StrEnum):
    """The spelling of column names."""

    UNDERSCORED = "underscored"
    CONTRACT = "contract"


class ColumnKind(Enum):
    """What a column holds; each may be null."""

    TEXT = "text"
    DATE = "date"
    TIME = "time"
    INTEGER = "integer"
    NUMBER = "number"
    ROUNDED = "rounded"  # a number as the source has it, of a member that rounds it
    DECIMAL = "decimal"  # the number in a text, null if the text is none
    BOOLEAN = "boolean"
    TEXTS = "texts"  # a list of texts
    ANY = "any"  # a text as it is, any other value as JSON


_KINDS = {
    str: ColumnKind.TEXT,
    Date: ColumnKind.DATE,
    DateTime: ColumnKind.TIME,
    DecimalText: ColumnKind.TEXT,
    int: ColumnKind.INTEGER,
    Rounded: ColumnKind.INTEGER,
    float: ColumnKind.NUMBER,
    bool: ColumnKind.BOOLEAN,
    list[str]: ColumnKind.TEXTS,
    list[Any]: ColumnKind.ANY,
    Any: ColumnKind.ANY,
}


# The kinds of the second columns of members.
_EXACT_KINDS = {Rounded: ColumnKind.ROUNDED, DecimalText: ColumnKind.DECIMAL}


@dataclass(frozen=True)
class TypedColumn:
    """A column with the value at `path` in a record, or in an object of a list. `kind` is what it holds."""

    path: tuple[str, ...]
    kind: ColumnKind
    prefix: str = ""  # of a name that a column of the feed has

    def name(self, spelling: Spelling) -> str:
        parts = [*self.path[:-1], self.path[-1] + ("Decimal" if self.kind in _EXACT_KINDS.values() else "")]
        return self.prefix + "_".join(parts if spelling is Spelling.CONTRACT else map(underscore, parts))


@dataclass(frozen=True)
class TypedTable:
    """A table: `member` is the list in a record that has its rows, None for a row per record."""

    name: str
    member: str | None
    columns: tuple[TypedColumn, ...]


def underscore(name: str) -> str:
    """Return the underscored spelling of a name, for example `list_office_aor_area`."""
    return _BOUNDARY.sub("_", name).lower()


@cache
def typed_tables(resource: str) -> tuple[TypedTable, ...]:
    record = RECORD_TYPES[resource]
    members, title = get_type_hints(record, include_extras=True), underscore(record.__name__)
    own = tuple(column for name, hint in members.items() for column in _columns((name,), hint, f"{title}_"))
    kinds = {name: _EXACT_KINDS.get(_without_none(hint)) for name, hint in members.items()}
    own += tuple(TypedColumn((name,), kind) for name, kind in kinds.items() if kind is not None)
    lists = (_list_table(title, name, hint) for name, hint in members.items() if _is_object_list(hint))
    return (TypedTable(resource, None, own), *lists)


def _list_table(title: str, member: str, hint: Any) -> TypedTable:
    """Return for example `listing_images` of `ListingImages`, and `sold_listing_open_house` of `OpenHouse`."""
    (item,) = get_args(hint)
    members = get_type_hints(item, include_extras=True)
    columns = tuple(column for name, inner in members.items() for column in _columns((name,), inner, ""))
    short = underscore(member).removeprefix(f"{title.rpartition('_')[2]}_")
    return TypedTable(f"{title}_{short}", member, columns)


def _columns(path: tuple[str, ...], hint: Any, prefix: str) -> Iterator[TypedColumn]:
    inner = _without_none(hint)
    if inner in _KINDS:
        clashes = "_".join(path).lower() in {*FEED_COLUMNS, "record"}
        yield TypedColumn(path, _KINDS[inner], prefix if clashes else "")
    elif not _is_object_list(inner):
        for name, member in get_type_hints(inner, include_extras=True).items():
            yield from _columns((*path, name), member, prefix)


def _is_object_list(hint: Any) -> bool:
    return get_origin(hint) is list and hint not in _KINDS


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, UnionType}:
        (inner,) = (kind for kind in get_args(hint) if kind is not NoneType)
        return inner
    return hint
