"""Conversion of a cell's text to a JSON value of the field's declared kind."""

import datetime as dt
from collections.abc import Callable
from zoneinfo import ZoneInfo

from indexer.source.tables.cell_sources import (
    CellSource,
    DatedCellSource,
    NumberCellSource,
    TextCellSource,
    UnixCellSource,
    UntypedCellSource,
)
from indexer.source.tables.date_texts import date_converter, date_time_converter, time_converter, unix_converter
from indexer.source.tables.number_texts import number_converter
from indexer.source.tables.table_format import TableFormat, check_number_signs, texts, zone
from mappings.fields import FieldKind

Scalar = str | int | float | bool
Convert = Callable[[str], object]

_BOOLEANS = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
_NUMBERS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.UNIX})


def constant_converter(kind: FieldKind) -> Convert:
    """Return the function that converts a constant date or date-time; its ValueError completes "the text ..."."""
    return date_converter(()) if kind is FieldKind.DATE else date_time_converter((), dt.UTC)


def cell_conversion(kind: FieldKind, cells: CellSource, table: TableFormat) -> Convert:
    """Return the function that converts a non-empty text; its ValueError completes "the text ...".

    Raises ValueError for signs or a time zone that cannot be used.
    """
    plain = _plain_conversion(kind, cells, table)
    if cells.map is None:
        return plain
    return _mapped(cells.map, cells.default, plain if cells.keep_unmapped else None)


def _plain_conversion(kind: FieldKind, cells: CellSource, table: TableFormat) -> Convert:
    if isinstance(cells, UntypedCellSource):
        kind = FieldKind(cells.type or ("number" if cells.formula else "string"))
    if isinstance(cells, UnixCellSource) and cells.format is not None:
        return unix_converter(texts(cells.format), _zone(cells, table))
    if kind in _NUMBERS and isinstance(cells, NumberCellSource):
        return _number(cells, table)
    if kind in {FieldKind.DATE, FieldKind.DATE_TIME} and isinstance(cells, DatedCellSource):
        return _dated(kind, cells, table)
    if kind is FieldKind.BOOLEAN:
        return _boolean
    if isinstance(cells, TextCellSource) and cells.time_format is not None:
        return time_converter(texts(cells.time_format))
    return str


def _number(cells: NumberCellSource, table: TableFormat) -> Convert:
    decimal = table.decimal if cells.decimal is None else cells.decimal
    thousands = table.thousands if cells.thousands is None else cells.thousands
    check_number_signs(decimal, thousands)
    return number_converter(decimal, thousands, texts(table.currency if cells.currency is None else cells.currency))


def _dated(kind: FieldKind, cells: DatedCellSource, table: TableFormat) -> Convert:
    default = table.date_format if kind is FieldKind.DATE else table.date_time_format
    formats = texts(default if cells.format is None else cells.format)
    return date_converter(formats) if kind is FieldKind.DATE else date_time_converter(formats, _zone(cells, table))


def _zone(cells: DatedCellSource | UnixCellSource, table: TableFormat) -> ZoneInfo | dt.timezone:
    name = table.time_zone if cells.time_zone is None else cells.time_zone
    return dt.UTC if name == "UTC" else zone(name)


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.casefold()]
    except KeyError:
        raise ValueError("is not one of true, false, yes, no, y, n, 1, 0: use a `map` for other texts") from None


def _mapped(table: dict[str, str | int | float | bool], default: object, otherwise: Convert | None) -> Convert:
    def look_up(text: str) -> object:
        value = table.get(text, default)
        if value is None and otherwise is not None:
            return otherwise(text)
        if value is None:
            raise ValueError("is not in the map")
        return value

    return look_up
