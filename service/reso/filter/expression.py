"""The syntax tree of `$filter`: comparisons of one field with literals, joined by and, or, not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class ComparisonOperator(StrEnum):
    """A comparison operator of OData."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"

    @property
    def mirrored(self) -> ComparisonOperator:
        """The operator for swapped operands."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    ComparisonOperator.GT: ComparisonOperator.LT,
    ComparisonOperator.GE: ComparisonOperator.LE,
    ComparisonOperator.LT: ComparisonOperator.GT,
    ComparisonOperator.LE: ComparisonOperator.GE,
}


class LiteralType(StrEnum):
    """The type of a literal, as worded in error messages."""

    TEXT = "a string in single quotes"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    NULL = "null"
    TIMESTAMP = "a timestamp such as 2026-01-31T08:00:00Z"
    DATE = "a date such as 2026-01-31"
    OTHER = "of another type"


class FilterLiteral(NamedTuple):
    """A literal: its type and text; strings without quotes and unescaped."""

    type: LiteralType
    text: str


@dataclass(frozen=True)
class FieldComparison:
    """One field compared with one value."""

    field: str
    operator: ComparisonOperator
    value: FilterLiteral


@dataclass(frozen=True)
class InList:
    """One field compared with a list of values by `in`."""

    field: str
    values: tuple[FilterLiteral, ...]


@dataclass(frozen=True)
class And:
    """Every part holds."""

    parts: tuple[FilterExpression, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[FilterExpression, ...]


@dataclass(frozen=True)
class Negation:
    """The part does not hold."""

    part: FilterExpression


FilterExpression = FieldComparison | InList | And | Or | Negation
