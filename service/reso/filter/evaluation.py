"""Evaluates filters in memory, on values that no index holds and that are never null."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Negation,
    Or,
)

# Returns the value of a property and that of the literal, in a form in which they compare.
Operands = Callable[[str, ComparisonOperator, FilterLiteral], tuple[Any, Any]]

_COMPARE: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    ComparisonOperator.EQ: eq,
    ComparisonOperator.NE: ne,
    ComparisonOperator.GT: gt,
    ComparisonOperator.GE: ge,
    ComparisonOperator.LT: lt,
    ComparisonOperator.LE: le,
}


def evaluate(expression: FilterExpression, condition_holds: Callable[[FieldCondition], bool]) -> bool:
    """Whether an expression holds, by those of its conditions that do."""
    match expression:
        case And(parts):
            return all(evaluate(part, condition_holds) for part in parts)
        case Or(parts):
            return any(evaluate(part, condition_holds) for part in parts)
        case Negation(part):
            return not evaluate(part, condition_holds)
    return condition_holds(expression)


def comparison_holds(condition: FieldComparison | InList, operands: Operands) -> bool:
    """Whether a comparison with one value or with a list of them holds."""
    if isinstance(condition, InList):
        return any(_compares(condition.field, ComparisonOperator.EQ, value, operands) for value in condition.values)
    return _compares(condition.field, condition.operator, condition.value, operands)


def _compares(name: str, operator: ComparisonOperator, value: FilterLiteral, operands: Operands) -> bool:
    if value.type is LiteralType.NULL:
        return operator is ComparisonOperator.NE
    return _COMPARE[operator](*operands(name, operator, value))
