"""Numbers as people write them, with signs of currencies, grouped digits or a decimal comma, and arithmetic on them."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from indexer.source.tables.column_map import PLACEHOLDER

Value = TypeVar("Value")

# Parsing a date by a format takes 5 to 10 µs, a number 1 to 2 µs, and exports repeat few of them often.
_CACHED_TEXTS = 4_096
_CACHED_CHARACTERS = 40


def cached(convert: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a conversion that remembers its last short texts."""
    remembered = lru_cache(_CACHED_TEXTS)(convert)
    return lambda text: remembered(text) if len(text) <= _CACHED_CHARACTERS else convert(text)


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
        return value if factor is None else exact_product(value, factor)

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


def exact_product(value: float, factor: float) -> int | float:
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


def compile_formula(text: str) -> Compute:
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
        return operator.itemgetter(int(node.id[1:]))
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
