"""One value from the cells of a row: their text, and its conversion to the field's declared kind.

Dates are written as exports do, by `strptime` formats.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID, uuid5

from indexer.errors import InvalidRecordError
from indexer.source.tables.column_map import (
    CellSource,
    DatedCellSource,
    NumberCellSource,
    TableFormat,
    TextCellSource,
    UnixCellSource,
    UntypedCellSource,
    check_number_signs,
    texts,
)
from indexer.source.tables.local_times import Instant, LocalTimes, LocalZone
from indexer.source.tables.lossy_cells import (
    FRACTION,
    SCIENTIFIC,
    RowWatch,
    Sign,
    check_digits,
    is_watched,
    is_zip_code,
    padded,
    placeholder_test,
    suspicion,
    whole,
)
from indexer.source.tables.numbers import Number, Value, cached, compile_formula, exact_product, number_converter
from mappings.fields import FieldKind

# Among formats, for columns that mix ISO 8601 with others.
ISO = "ISO"


def _date_converter(formats: Sequence[str]) -> Callable[[str], str]:
    """Return the function that converts a text to `YYYY-MM-DD`; its ValueError completes "the text ..."."""
    return cached(lambda text: parsed_time(text, formats).date().isoformat())


def _instant_converter(
    formats: Sequence[str],
    shape: Callable[[dt.datetime], Value],
    cells: DatedCellSource | UnixCellSource,
    at: CellPlace,
) -> Callable[[str], Value]:
    """Return the function that converts a text to an instant in some shape; those without an offset are local."""
    table, is_order = at.context.table, at.path == "updated_at"
    local = LocalZone(cells.time_zone or table.time_zone, cells.ambiguous or table.ambiguous)

    def instant(text: str) -> tuple[Value, Instant]:
        found = local.instant(parsed_time(text, formats), is_order=is_order)
        return shape(found.time), found

    known = cached(instant)

    def convert(text: str) -> Value:
        value, found = known(text)
        if found.doubt is not None:
            at.context.times.add(found, local, at.columns, text, is_order=is_order)
        return value

    return convert


def _time_converter(formats: Sequence[str]) -> Callable[[str], str]:
    """Return the function that converts the time of day in a text to `HH:MM:SS`."""
    return cached(lambda text: parsed_time(text, formats).strftime("%H:%M:%S"))


def parsed_time(text: str, formats: Sequence[str]) -> dt.datetime:
    """Return the date-time of a text by the first format that fits, or by ISO 8601 without formats."""
    try:
        if not formats:
            return dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not an ISO 8601 date") from None
    for one in formats:
        try:
            if one == ISO:
                return dt.datetime.fromisoformat(text)
            return dt.datetime.strptime(text, one)  # noqa: DTZ007 - see _instant_converter
        except ValueError:
            continue
    raise ValueError(f"does not match the format {' or '.join(formats)}")


Convert = Callable[[str], object]

_BOOLEANS = {"true": True, "yes": True, "y": True, "1": True, "false": False, "no": False, "n": False, "0": False}
_NUMBERS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.UNIX})


def constant_converter(kind: FieldKind) -> Convert:
    """Return the function that converts a constant date or date-time; its ValueError completes "the text ..."."""
    if kind is FieldKind.DATE:
        return _date_converter(())
    utc = LocalZone(None, None)
    return lambda text: utc.instant(parsed_time(text, ()), is_order=False).time.isoformat()


def _cell_conversion(kind: FieldKind, cells: CellSource, at: CellPlace) -> Convert:
    """Return the function that converts a non-empty text; its ValueError completes "the text ...".

    Raises ValueError for signs or a time zone that cannot be used.
    """
    plain = _plain_conversion(kind, cells, at)
    if cells.map is None:
        return plain
    return _mapped(cells.map, cells.default, plain if cells.keep_unmapped else None)


def _plain_conversion(kind: FieldKind, cells: CellSource, at: CellPlace) -> Convert:
    table = at.context.table
    if isinstance(cells, UntypedCellSource):
        kind = FieldKind(cells.type or ("number" if cells.formula else "string"))
    if isinstance(cells, UnixCellSource) and cells.format is not None:
        return _instant_converter(texts(cells.format), lambda time: int(time.timestamp()), cells, at)
    if kind in _NUMBERS and isinstance(cells, NumberCellSource):
        return _number_conversion(cells, table)
    if kind in {FieldKind.DATE, FieldKind.DATE_TIME} and isinstance(cells, DatedCellSource):
        return _dated(kind, cells, at)
    if kind is FieldKind.BOOLEAN:
        return _boolean
    if isinstance(cells, TextCellSource) and cells.time_format is not None:
        return _time_converter(texts(cells.time_format))
    return str


def _number_conversion(cells: NumberCellSource, table: TableFormat) -> Callable[[str], Number]:
    decimal = table.decimal if cells.decimal is None else cells.decimal
    thousands = table.thousands if cells.thousands is None else cells.thousands
    check_number_signs(decimal, thousands)
    currency = texts(table.currency if cells.currency is None else cells.currency)
    number = number_converter(decimal, thousands, currency, cells.units)
    return number if cells.weights is None else _weighted_sum(cells.split or "", cells.weights, number)


def _weighted_sum(separator: str, weights: list[Number], number: Callable[[str], Number]) -> Callable[[str], Number]:
    """Return the function that adds the parts of a text, each multiplied by its weight; an empty part is 0."""

    def weighted_sum(text: str) -> Number:
        parts = [part.strip() for part in text.split(separator)]
        if len(parts) > len(weights):
            raise ValueError(f"has {len(parts)} parts, but `weights` has {len(weights)}")
        return sum(exact_product(number(part or "0"), weight) for part, weight in zip(parts, weights, strict=False))

    return weighted_sum


def _dated(kind: FieldKind, cells: DatedCellSource, at: CellPlace) -> Convert:
    table = at.context.table
    default = table.date_format if kind is FieldKind.DATE else table.date_time_format
    formats = texts(default if cells.format is None else cells.format)
    if kind is FieldKind.DATE:
        return _date_converter(formats)
    return _instant_converter(formats, dt.datetime.isoformat, cells, at)


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


Row = list[str]
ReadCell = Callable[[Row], str]
ReadText = Callable[[Row], str | None]
ReadValue = Callable[[Row], object]

# The namespace of name-based UUIDs: changing it would give every agent and team a new identity.
NAMESPACE = UUID("9c1f2a52-1c0b-4b8e-9a55-3a5a0f0f6f1d")
_MAX_SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class CellContext:
    """What cells are read with: the table's format, the position of a column, the row's company, and local times.

    `index` gets the path of the value for its SourceError if the column does not exist. `identifier` is the path of the
    record's identifier. `watch` counts damaged cells; None if another reading of the same cells does.
    """

    table: TableFormat
    index: Callable[[str, str], int]
    company: ReadText
    identifier: str
    watch: RowWatch | None
    times: LocalTimes


class CellPlace(NamedTuple):
    """What a value is read with, its path in the envelope, and the names of its columns for messages."""

    context: CellContext
    path: str
    columns: str


class SalvagedRow(Row):
    """A row of which all faults are collected: a cell that cannot be read has no value."""

    def __init__(self, cells: Row) -> None:
        super().__init__(cells)
        self.faults: list[InvalidRecordError] = []


def _unreadable(row: Row, path: str, reason: str) -> None:
    """Raise the fault of a cell, or keep it if all faults of the row are collected."""
    fault = InvalidRecordError(path, reason)
    if not isinstance(row, SalvagedRow):
        raise fault from None
    row.faults.append(fault)


def value_reader(path: str, kind: FieldKind, cells: CellSource, context: CellContext) -> ReadValue:
    """Return the function that reads a value from a row: None if there is none; it raises InvalidRecordError.

    Raises SourceError for an unknown column, ValueError for a formula or sign that cannot be used.
    """
    readers = [_cell_reader(path, cells, column, context) for column in cells.columns]
    origin = " and ".join(f"column {column}" for column in cells.columns)
    if isinstance(cells, NumberCellSource) and cells.formula is not None:
        return _formula_reader(path, origin, cells, context.table, readers)
    convert = _cell_conversion(kind, cells, CellPlace(context, path, origin))
    text_of = _text_reader(cells, readers, context.company)
    if numbers := _numbers(cells.empty_if):
        convert = _emptied(convert, numbers)
    _watch(path, kind, cells, context, convert)

    if cells.is_list:
        return _split_reader(path, origin, cells.split or "", text_of, convert)

    def read(row: Row) -> object:
        text = text_of(row)
        if not text:
            return None
        try:
            return convert(text)
        except ValueError as error:
            _unreadable(row, path, f"{origin}: {_shown(text)} {error}")
            return None

    return read


def _cell_reader(path: str, cells: CellSource, column: str, context: CellContext) -> ReadCell:
    """Return the function that reads the text of one cell, repaired."""
    index, steps = context.index(path, column), list[Callable[[str], str]]()
    if empty := frozenset(text for text in cells.empty_if if isinstance(text, str)):
        steps.append(lambda text: "" if text in empty else text)
    if cells.whole:
        steps.append(whole)
    elif path == context.identifier:
        steps.append(check_digits)
    if cells.pad is not None:
        steps.append(padded(cells.pad))
    return _stepwise(path, column, index, steps) if steps else itemgetter(index)


def _stepwise(path: str, column: str, index: int, steps: list[Callable[[str], str]]) -> ReadCell:
    first, *others = steps

    def read(row: Row) -> str:
        if not (cell := row[index]):
            return cell
        try:
            text = first(cell)
            for step in others:
                text = step(text)
        except ValueError as error:
            _unreadable(row, path, f"column {column}: {_shown(cell)} {error}")
            return ""
        return text

    return read


def _watch(path: str, kind: FieldKind, cells: CellSource, context: CellContext, convert: Convert) -> None:
    """Let damaged cells be counted that are not repaired; a `map` translates or refuses them."""
    name, is_repaired = path.rpartition(".")[2], frozenset(map(str, cells.empty_if)).__contains__
    is_text = kind is FieldKind.STRING or (isinstance(cells, UntypedCellSource) and cells.type in {None, "string"})
    is_text = is_text and not (cells.map and not cells.keep_unmapped) and is_watched(name)
    if context.watch is None or (not is_text and placeholder_test(name, kind) is None):
        return
    suspect = suspicion(name, kind, convert)

    def sign(text: str) -> Sign | None:
        found = None if is_repaired(text) else suspect(text)
        return None if cells.whole and found in {FRACTION, SCIENTIFIC} else found

    for column in cells.columns:
        index, origin = context.index(path, column), f"{path.removeprefix('record.')}, column {column}"
        context.watch.watch(index, origin, sign, is_text=is_text)
        if cells.pad is None and (path == context.identifier or is_zip_code(name)):
            context.watch.measure(index, origin)


def _numbers(values: Sequence[str | float]) -> frozenset[object]:
    return frozenset(value for value in values if not isinstance(value, str))


def _emptied(convert: Convert, numbers: frozenset[object]) -> Convert:
    def value_of(text: str) -> object:
        value = convert(text)
        number: object = value
        if isinstance(value, str):
            with suppress(ValueError):
                number = float(value)
        return None if number in numbers else value

    return value_of


def _split_reader(
    path: str, origin: str, separator: str, text_of: ReadText, convert: Callable[[str], object]
) -> ReadValue:
    """Return the function that reads a list of values from a cell, None if it has none."""

    def read(row: Row) -> list[object] | None:
        parts = [part for part in map(str.strip, (text_of(row) or "").split(separator)) if part]
        try:
            return [value for part in parts if (value := convert(part)) is not None] or None
        except ValueError as error:
            _unreadable(row, path, f"{origin}: one value of {_shown(separator.join(parts))} {error}")
            return None

    return read


def _text_reader(cells: CellSource, readers: list[ReadCell], company: ReadText) -> ReadText:
    text_of = _origin_reader(cells, readers)
    if cells.replace:
        text_of = _replaced(text_of, cells.replace)
    return text_of if cells.uuid5 is None else _name_based(text_of, company)


def _origin_reader(cells: CellSource, readers: list[ReadCell]) -> ReadText:
    if cells.column is not None:
        return readers[0]
    if cells.join is not None:
        separator = " " if cells.separator is None else cells.separator
        return lambda row: separator.join([text for read in readers if (text := read(row))])
    return _template_reader(cells.literals, readers)


def _template_reader(literals: list[str], readers: list[ReadCell]) -> ReadText:
    start, *between = literals

    def fill(row: Row) -> str | None:
        cells = [read(row) for read in readers]
        return start + "".join(chain.from_iterable(zip(cells, between, strict=True))) if all(cells) else None

    return fill


def _replaced(text_of: ReadText, parts: dict[str, str]) -> ReadText:
    def replaced(row: Row) -> str | None:
        text = text_of(row)
        for old, new in parts.items() if text else ():
            text = (text or "").replace(old, new)
        return text

    return replaced


def _name_based(text_of: ReadText, company: ReadText) -> ReadText:
    def name(row: Row) -> str | None:
        text = text_of(row)
        return str(uuid5(NAMESPACE, f"{company(row) or ''}\n{text}")) if text else None

    return name


def _formula_reader(
    path: str, origin: str, cells: NumberCellSource, table: TableFormat, readers: list[ReadCell]
) -> ReadValue:
    compute, number = compile_formula(cells.text), _number_conversion(cells, table)
    empty = _numbers(cells.empty_if)

    def read(row: Row) -> object:
        values = [cell(row) for cell in readers]
        if not all(values):
            return None
        try:
            result = compute([number(value) for value in values])
        except ValueError as error:
            _unreadable(row, path, f"{origin}: {_shown(', '.join(values))} {error}")
            return None
        return None if result in empty else result

    return read


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
