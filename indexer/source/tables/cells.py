"""One value from the cells of a row: their text, its arithmetic, and its conversion to the field's declared kind.

Dates are written as exports do, by `strptime` formats, numbers as people do, with signs of currencies, grouped digits
or a decimal comma.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeVar
from uuid import UUID, uuid5

from indexer.errors import InvalidRecordError
from indexer.source.tables.column_map import (
    PLACEHOLDER,
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
from mappings.fields import FieldKind

Value = TypeVar("Value")

# Parsing a date by a format takes 5 to 10 µs, a number 1 to 2 µs, and exports repeat few of them often.
_CACHED_TEXTS = 4_096
_CACHED_CHARACTERS = 40


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


def cached(convert: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a conversion that remembers its last short texts."""
    remembered = lru_cache(_CACHED_TEXTS)(convert)
    return lambda text: remembered(text) if len(text) <= _CACHED_CHARACTERS else convert(text)


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


_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_INTEGER_DIGITS = 40  # far beyond the accepted range, and cheap to convert
_MAX_NUMBER_CHARACTERS = 400  # of any number; longer texts are not matched
_GROUPED = re.compile(r"[0-9][,.'\u2019 \u00a0\u202f][0-9]{3}\b")
_SIGN = r"[^\w\s+.,'()-]|[A-Z]{3}"
_SYMBOL = re.compile(rf"^[+-]?({_SIGN})\s?[0-9]|[0-9]\s?({_SIGN})$")
# Spaces that typesetters use between groups of digits.
_SPACES = " \u00a0\u202f"


def number_converter(
    decimal: str, thousands: str, currency: Sequence[str], units: Mapping[str, float] | None = None
) -> Callable[[str], int | float]:
    """Return the function that converts a text to a number; its ValueError completes "the text ...".

    Groups must have three digits, since `12,5` with a comma for thousands is more likely a mistake than 125.
    """
    longest_first = sorted((units or {}).items(), key=lambda unit: -len(unit[0]))
    group = f"[{_SPACES}]" if thousands == " " else re.escape(thousands)
    digits = rf"[0-9]+|[0-9]{{1,3}}(?:{group}[0-9]{{3}})+" if thousands else "[0-9]+"
    point = re.escape(decimal)
    is_number = re.compile(rf"[+-]?(?:(?:{digits})(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
    signs = dict.fromkeys(map(ord, _SPACES if thousands == " " else thousands)) | {ord(decimal): "."}
    may_translate = bool(thousands) or decimal != "."

    def number(text: str) -> int | float:
        if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
            return int(text)
        plain, factor = _without(currency, text) if currency else text, None
        for unit, times in longest_first:
            if plain.endswith(unit):
                plain, factor = plain[: -len(unit)].rstrip(), times
                break
        if not is_number(plain):
            raise ValueError(f"is not a number{_advice(text, thousands, currency)}")
        value = _parsed(plain.translate(signs) if may_translate else plain)
        return value if factor is None else _product(value, factor)

    return cached(number)


def _without(currency: Sequence[str], text: str) -> str:
    """Return a text without the sign of a currency before or after it."""
    for sign in currency:
        if text.startswith(sign):
            return text[len(sign) :].lstrip()
        if text.endswith(sign):
            return text[: -len(sign)].rstrip()
        if text[1:].startswith(sign) and text[0] in "+-":
            return text[0] + text[1 + len(sign) :].lstrip()
    return text


def _product(value: float, factor: float) -> int | float:
    """Return the exact product of two decimal numbers: 1.005 K is 1,005."""
    product = Fraction(str(value)) * Fraction(str(factor))
    return int(product) if product.denominator == 1 else float(product)


def _parsed(text: str) -> int | float:
    if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if not math.isfinite(number := float(text)):
        raise ValueError("is out of range")
    return number


def _advice(text: str, thousands: str, currency: Sequence[str]) -> str:
    """Return what to declare so that the text is a number, if that is clear."""
    found = _SYMBOL.search(text[:_MAX_NUMBER_CHARACTERS])
    symbol = (found[1] or found[2]) if found else None
    if symbol and symbol not in currency:
        return f': if {symbol} is a currency or unit, set currency = "{symbol}"'
    if not thousands and (group := _GROUPED.search(text[:_MAX_NUMBER_CHARACTERS])):
        return f': if {group[0][1]!r} groups digits, set thousands = "{group[0][1]}"'
    return ""


Number = int | float
Compute = Callable[[Sequence[int | float]], int | float]

_MAX_FORMULA_CHARACTERS = 500
_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "min": min,
    "max": max,
    "abs": abs,
}
_RULE = "use {column}, numbers, + - * / // %, parentheses, and " + ", ".join(f"{name}()" for name in _FUNCTIONS)


def _compile_formula(text: str) -> Compute:
    """Return the function that computes a formula from its cells, in the order of its placeholders.

    Raises ValueError for anything but arithmetic; the function raises ValueError that completes "the formula ...".
    """
    count = 0

    def numbered(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f" c{count - 1} "

    try:
        compute = _compiled(
            ast.parse(PLACEHOLDER.sub(numbered, text[:_MAX_FORMULA_CHARACTERS]).strip(), mode="eval").body, count
        )
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"is not a formula: {_RULE}") from None
    return _checked(compute)


def _checked(compute: Compute) -> Compute:
    def result(values: Sequence[Number]) -> Number:
        try:
            value = compute(values)
            is_finite = math.isfinite(value)
        except ZeroDivisionError:
            raise ValueError("divides by zero") from None
        except (OverflowError, ValueError):
            raise ValueError("has a result that is out of range") from None
        if not is_finite:
            raise ValueError("has a result that is out of range")
        return value

    return result


def _compiled(node: ast.expr, cells: int) -> Compute:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return _constant(node.value)
    if isinstance(node, ast.Name) and node.id in {f"c{index}" for index in range(cells)}:
        return itemgetter(int(node.id[1:]))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        negated = _compiled(node.operand, cells)
        return lambda values: -negated(values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right, apply = _compiled(node.left, cells), _compiled(node.right, cells), _OPERATORS[type(node.op)]
        return lambda values: apply(left(values), right(values))
    if isinstance(node, ast.Call) and not node.keywords:
        return _call(node, cells)
    raise SyntaxError


def _constant(value: Number) -> Compute:
    return lambda _: value


def _call(node: ast.Call, cells: int) -> Compute:
    if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or not node.args:
        raise SyntaxError
    function, arguments = _FUNCTIONS[node.func.id], [_compiled(argument, cells) for argument in node.args]
    if len(arguments) > 1 and node.func.id not in {"min", "max"}:
        raise SyntaxError
    if len(arguments) == 1 and node.func.id in {"min", "max"}:
        raise SyntaxError
    return lambda values: function(*[argument(values) for argument in arguments])


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
        return sum(_product(number(part or "0"), weight) for part, weight in zip(parts, weights, strict=False))

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
    compute, number = _compile_formula(cells.text), _number_conversion(cells, table)
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
