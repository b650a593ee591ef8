"""The syntax tree of `$filter`: comparisons of one field with literals, joined by and, or, not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeVar


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
        return _MIRRORED.get(self, self)

    @property
    def complement(self) -> ComparisonOperator:
        """The operator that holds of a value, other than null, if this one does not."""
        return _COMPLEMENTS[self]


_MIRRORED = {
    ComparisonOperator.GT: ComparisonOperator.LT,
    ComparisonOperator.GE: ComparisonOperator.LE,
    ComparisonOperator.LT: ComparisonOperator.GT,
    ComparisonOperator.LE: ComparisonOperator.GE,
}
_COMPLEMENTS = {
    ComparisonOperator.EQ: ComparisonOperator.NE,
    ComparisonOperator.NE: ComparisonOperator.EQ,
    ComparisonOperator.GT: ComparisonOperator.LE,
    ComparisonOperator.GE: ComparisonOperator.LT,
    ComparisonOperator.LT: ComparisonOperator.GE,
    ComparisonOperator.LE: ComparisonOperator.GT,
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


# The text of the timestamp literal `now()`.
NOW = "now()"


class FilterLiteral(NamedTuple):
    """A literal: its type and text; strings without quotes and unescaped, lookup values without their type."""

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


class TextTest(StrEnum):
    """A function that tests a text."""

    CONTAINS = "contains"
    STARTS_WITH = "startswith"
    ENDS_WITH = "endswith"


class FieldFunction(StrEnum):
    """A function of one field, whose value is compared."""

    TO_LOWER = "tolower"
    TO_UPPER = "toupper"
    YEAR = "year"
    DATE = "date"


@dataclass(frozen=True)
class TextCondition:
    """A test of a text, possibly after `tolower` or `toupper`."""

    field: str
    test: TextTest
    text: str
    function: FieldFunction | None = None


@dataclass(frozen=True)
class FunctionComparison:
    """A function of a field compared with one value."""

    function: FieldFunction
    field: str
    operator: ComparisonOperator
    value: FilterLiteral


@dataclass(frozen=True)
class TextAlternatives:
    """A text passes at least one of several tests. The parser makes none: it is how alternatives are answered."""

    field: str
    tests: tuple[TextCondition | FunctionComparison, ...]


@dataclass(frozen=True)
class HasValue:
    """`has`: a lookup is, or a collection contains, a value."""

    field: str
    value: FilterLiteral


@dataclass(frozen=True)
class ElementSet:
    """The texts that satisfy the condition of `any` or `all`: these, or with `is_complement` all but these."""

    texts: frozenset[str]
    is_complement: bool = False

    def __and__(self, other: ElementSet) -> ElementSet:
        return ~(~self | ~other)

    def __or__(self, other: ElementSet) -> ElementSet:
        if self.is_complement and other.is_complement:
            return ElementSet(self.texts & other.texts, is_complement=True)
        if self.is_complement or other.is_complement:
            excluded, given = (self, other) if self.is_complement else (other, self)
            return ElementSet(excluded.texts - given.texts, is_complement=True)
        return ElementSet(self.texts | other.texts)

    def __invert__(self) -> ElementSet:
        return ElementSet(self.texts, not self.is_complement)


@dataclass(frozen=True)
class AnyElement:
    """A collection has an element of a set. `all` is the negation of `any` for the complement."""

    field: str
    elements: ElementSet


@dataclass(frozen=True)
class AnyChild:
    """A collection of entities has one that matches. `all` is the negation of `any` for those that do not."""

    field: str
    expression: FilterExpression


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
    """A condition does not hold. It is around conditions alone (`negated`)."""

    condition: FieldCondition


FieldCondition = (
    FieldComparison | InList | TextCondition | FunctionComparison | TextAlternatives | HasValue | AnyElement | AnyChild
)
Leaf = FieldCondition | Negation
FilterExpression = Leaf | And | Or
Folded = TypeVar("Folded")


def negated(expression: FilterExpression) -> FilterExpression:
    """Return the negation, pushed down to the conditions, so that it adds no nesting of its own."""
    match expression:
        case And(parts):
            return Or(tuple(map(negated, parts)))
        case Or(parts):
            return And(tuple(map(negated, parts)))
        case Negation(condition):
            return condition
    return Negation(expression)


def fold(
    expression: FilterExpression,
    of_leaf: Callable[[Leaf], Folded],
    all_of: Callable[[Iterator[Folded]], Folded],
    any_of: Callable[[Iterator[Folded]], Folded],
) -> Folded:
    """Return what `all_of` and `any_of` make of conditions and their negations; they may stop before the last part."""
    match expression:
        case And(parts):
            return all_of(fold(part, of_leaf, all_of, any_of) for part in parts)
        case Or(parts):
            return any_of(fold(part, of_leaf, all_of, any_of) for part in parts)
    return of_leaf(expression)


def conditions(expression: FilterExpression) -> Iterator[FieldCondition]:
    """Return the conditions in order, negated or not."""

    def of_leaf(leaf: Leaf) -> Iterator[FieldCondition]:
        yield leaf.condition if isinstance(leaf, Negation) else leaf

    return fold(expression, of_leaf, chain.from_iterable, chain.from_iterable)


def compared_literals(expression: FilterExpression, name: str) -> Iterator[FilterLiteral]:
    """Yield the values that a property is compared with."""
    for condition in conditions(expression):
        match condition:
            case FieldComparison(field, _, value) if field == name:
                yield value
            case InList(field, values) if field == name:
                yield from values


_COMPARE: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    ComparisonOperator.EQ: eq,
    ComparisonOperator.NE: ne,
    ComparisonOperator.GT: gt,
    ComparisonOperator.GE: ge,
    ComparisonOperator.LT: lt,
    ComparisonOperator.LE: le,
}
# Whether a row matches.
Predicate = Callable[[Any], bool]


def compile_filter(
    expression: FilterExpression, of_condition: Callable[[FieldCondition], Predicate | bool]
) -> Predicate:
    """Return an expression as a function of a row: its literals are read once, however many rows there are.

    `of_condition` returns a condition as such a function, or a constant. Conditions are evaluated in order, and no
    further than the result needs.
    """

    def of_leaf(leaf: Leaf) -> Predicate | bool:
        if not isinstance(leaf, Negation):
            return of_condition(leaf)
        matches = of_condition(leaf.condition)
        return not matches if isinstance(matches, bool) else lambda row: not matches(row)

    compiled = fold(
        expression, of_leaf, lambda parts: _combined(parts, until=False), lambda parts: _combined(parts, until=True)
    )
    return (lambda _: compiled) if isinstance(compiled, bool) else compiled


def _combined(parts: Iterator[Predicate | bool], *, until: bool) -> Predicate | bool:
    """Return whether all parts match, or, with `until`, any of them."""
    kept: list[Predicate] = []
    for part in parts:
        if part is until:
            if not kept:
                return until
            # What comes before may refuse a row.
            kept.append(lambda _: until)
            break
        if not isinstance(part, bool):
            kept.append(part)
    if len(kept) < 2:
        return kept[0] if kept else not until
    return (lambda row: any(part(row) for part in kept)) if until else (lambda row: all(part(row) for part in kept))


def compile_comparison(
    condition: FieldComparison | InList,
    value_of: Callable[[Any], Any],
    operand: Callable[[FilterLiteral], Any],
) -> Predicate | bool:
    """Return a comparison of a value of a row with literals, which `operand` reads, as a function of the row."""
    if isinstance(condition, InList):
        accepted = {operand(value) for value in condition.values if value.type is not LiteralType.NULL}
        return lambda row: value_of(row) in accepted
    if condition.value.type is LiteralType.NULL:
        return condition.operator is ComparisonOperator.NE
    compare, given = _COMPARE[condition.operator], operand(condition.value)
    return lambda row: compare(value_of(row), given)
