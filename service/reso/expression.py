"""What a filter says, once it is read: comparisons of one field with literals, joined by and, or, not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Operator(StrEnum):
    """How a field is compared."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"

    @property
    def turned(self) -> Operator:
        """The same with its sides exchanged."""
        return _TURNED.get(self, self)


_TURNED = {
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
}


class Sort(StrEnum):
    """What a literal is, as it is told to people."""

    TEXT = "a text in single quotes"
    NUMBER = "a number"
    TRUTH = "true or false"
    NULL = "null"
    MOMENT = "a moment such as 2026-01-31T08:00:00Z"
    DAY = "a day such as 2026-01-31"
    OTHER = "of another type"


class Literal(NamedTuple):
    """A value of a filter: what it is, and its text; of a text that within the quotes, unescaped."""

    sort: Sort
    text: str


@dataclass(frozen=True)
class Comparison:
    """One field compared with one value."""

    field: str
    operator: Operator
    value: Literal


@dataclass(frozen=True)
class Among:
    """One field that is one of several values."""

    field: str
    values: tuple[Literal, ...]


@dataclass(frozen=True)
class Both:
    """Every part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Either:
    """At least one part holds."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Expression


Expression = Comparison | Among | Both | Either | Not
