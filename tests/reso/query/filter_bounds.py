"""What a $filter tree says about one field: the rows outside need not be looked at."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.reso.query.filter_grammar import And, FieldComparison, InList, Node, Or
from tests.reso.query.filter_tokens import FilterToken

_FROM_BELOW = frozenset({"eq", "gt", "ge"})
_FROM_ABOVE = frozenset({"eq", "lt", "le"})


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that can match, both included; None: no bound."""

    low: Any = None
    high: Any = None


def bounds(node: Node | None, field: str) -> Bounds:
    """Return the bounds of a field."""
    return Bounds(_bound(node, field, _FROM_BELOW, min, max), _bound(node, field, _FROM_ABOVE, max, min))


def equality_values(node: Node | None, field: str) -> set[Any] | None:
    """Return the only values that can match, or None if these are not few: from `eq` and `in`."""
    if isinstance(node, FieldComparison):
        return _values([node.literal]) if node.field == field and node.operator == "eq" else None
    if isinstance(node, InList):
        return _values(node.literals) if node.field == field else None
    if not isinstance(node, And | Or):
        return None
    known = [found for one in node.nodes if (found := equality_values(one, field)) is not None]
    if isinstance(node, And):
        return known[0] if known else None
    return set().union(*known) if len(known) == len(node.nodes) else None


def _bound(
    node: Node | None,
    field: str,
    operators: frozenset[str],
    widest: Callable[[Iterable[Any]], Any],
    narrowest: Callable[[Iterable[Any]], Any],
) -> Any:
    if isinstance(node, FieldComparison):
        return node.literal.value if node.field == field and node.operator in operators else None
    if isinstance(node, InList):
        values = _values(node.literals)
        return widest(values) if node.field == field and values else None
    if not isinstance(node, And | Or):
        return None
    known = [_bound(one, field, operators, widest, narrowest) for one in node.nodes]
    said = [value for value in known if value is not None]
    if isinstance(node, And):
        return narrowest(said) if said else None
    return widest(said) if len(said) == len(known) else None


def _values(literals: Iterable[FilterToken]) -> set[Any]:
    return {literal.value for literal in literals if literal.value is not None}
