"""Reading one value from the cells of a row: their text, its arithmetic, its conversion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID, uuid5

from indexer.errors import InvalidRecordError
from indexer.source.tables.cell_converters import cell_conversion
from indexer.source.tables.cell_sources import CellSource, NumberCellSource
from indexer.source.tables.formulas import compile_formula
from indexer.source.tables.number_texts import number_converter
from indexer.source.tables.table_format import TableFormat, texts
from mappings.fields import FieldKind

Row = list[str]
ReadText = Callable[[Row], str | None]
ReadValue = Callable[[Row], object]

# The namespace of name-based UUIDs: changing it would give every agent and team a new identity.
NAMESPACE = UUID("9c1f2a52-1c0b-4b8e-9a55-3a5a0f0f6f1d")
_MAX_SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class CellContext:
    """What cells are read with: the format of the table, the position of a column, and the key of a row's company.

    `index` gets the path of the value for its SourceError if the column does not exist.
    """

    table: TableFormat
    index: Callable[[str, str], int]
    company: ReadText


def value_reader(path: str, kind: FieldKind, cells: CellSource, context: CellContext) -> ReadValue:
    """Return the function that reads a value from a row: None if there is none; it raises InvalidRecordError.

    Raises SourceError for an unknown column, ValueError for a formula or sign that cannot be used.
    """
    indices = [context.index(path, column) for column in cells.columns]
    origin = " and ".join(f"column {column}" for column in cells.columns)
    if isinstance(cells, NumberCellSource) and cells.formula is not None:
        return _formula_reader(path, origin, cells, context.table, indices)
    convert, text_of = cell_conversion(kind, cells, context.table), _text_reader(cells, indices, context.company)

    if cells.split is not None:
        return _split_reader(path, origin, cells.split, text_of, convert)
    index = indices[0] if cells.column is not None and not cells.replace else None

    def read(row: Row) -> object:
        text = text_of(row) if index is None else row[index]
        if not text:
            return None
        try:
            return convert(text)
        except ValueError as error:
            raise InvalidRecordError(path, f"{origin}: {_shown(text)} {error}") from None

    return read


def _split_reader(
    path: str, origin: str, separator: str, text_of: ReadText, convert: Callable[[str], object]
) -> ReadValue:
    """Return the function that reads a list of values from a cell, None if it has none."""

    def read(row: Row) -> list[object] | None:
        parts = [part for part in map(str.strip, (text_of(row) or "").split(separator)) if part]
        try:
            return [convert(part) for part in parts] or None
        except ValueError as error:
            raise InvalidRecordError(path, f"{origin}: one value of {_shown(separator.join(parts))} {error}") from None

    return read


def _text_reader(cells: CellSource, indices: list[int], company: ReadText) -> ReadText:
    text_of = _origin_reader(cells, indices)
    if cells.replace:
        text_of = _replaced(text_of, cells.replace)
    return text_of if cells.uuid5 is None else _name_based(text_of, company)


def _origin_reader(cells: CellSource, indices: list[int]) -> ReadText:
    if cells.column is not None:
        (index,) = indices
        return lambda row: row[index]
    if cells.join is not None:
        separator = " " if cells.separator is None else cells.separator
        return lambda row: separator.join([row[index] for index in indices if row[index]])
    return _template_reader(cells.literals, indices)


def _template_reader(literals: list[str], indices: list[int]) -> ReadText:
    start, *between = literals

    def fill(row: Row) -> str | None:
        cells = [row[index] for index in indices]
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
    path: str, origin: str, cells: NumberCellSource, table: TableFormat, indices: Sequence[int]
) -> ReadValue:
    compute = compile_formula(cells.text)
    number = number_converter(
        table.decimal if cells.decimal is None else cells.decimal,
        table.thousands if cells.thousands is None else cells.thousands,
        texts(table.currency if cells.currency is None else cells.currency),
    )

    def read(row: Row) -> object:
        values = [row[index] for index in indices]
        if not all(values):
            return None
        try:
            return compute([number(value) for value in values])
        except ValueError as error:
            raise InvalidRecordError(path, f"{origin}: {_shown(', '.join(values))} {error}") from None

    return read


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
