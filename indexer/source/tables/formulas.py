"""Arithmetic on cells: a formula such as `{Lot SqFt} / 43560`, compiled once per file."""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence

Number = int | float
Compute = Callable[[Sequence[int | float]], int | float]

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_MAX_CHARACTERS = 500
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
            ast.parse(_PLACEHOLDER.sub(numbered, text[:_MAX_CHARACTERS]).strip(), mode="eval").body, count
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
