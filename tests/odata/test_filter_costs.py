"""A filter that Python evaluates reads each of its literals a few times, however many rows it is compared with."""

from types import SimpleNamespace
from typing import Any

import pytest

from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Or,
)
from service.reso.sets.child_condition import ChildCondition
from service.reso.sets.child_sets import CHILD_SETS, ChildKey
from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.static_sets import StaticFilter, StaticSet

_PARENTS, _CHILDREN, _LITERALS = 20, 50, 300
_READS = 8  # of a literal, with several spellings of a key


class Watched(FilterLiteral):
    """A literal that counts how often its text is read."""

    reads = 0

    @property
    def text(self) -> str:
        Watched.reads += 1
        return str(self[1])


def literals(kind: LiteralType, texts: list[str]) -> tuple[FilterLiteral, ...]:
    Watched.reads = 0
    return tuple(Watched(kind, text) for text in texts)


def _keys() -> list[str]:
    return [f"p{number % _PARENTS}!{number // _PARENTS}" for number in range(_LITERALS)]


def _in_list(name: str, given: tuple[FilterLiteral, ...]) -> FilterExpression:
    return InList(name, given)


def _none_of(name: str, given: tuple[FilterLiteral, ...]) -> FilterExpression:
    return And(tuple(FieldComparison(name, ComparisonOperator.NE, value) for value in given))


def _any_of(name: str, given: tuple[FilterLiteral, ...]) -> FilterExpression:
    return Or(tuple(FieldComparison(name, ComparisonOperator.EQ, value) for value in given))


@pytest.mark.parametrize("name", CHILD_SETS)
@pytest.mark.parametrize("shape", [_in_list, _none_of, _any_of])
def test_children_are_compared_with_literals_for_their_own_parent(name: str, shape: Any) -> None:
    child_set = CHILD_SETS[name]
    condition = ChildCondition(child_set, shape(child_set.key, literals(LiteralType.TEXT, _keys())))
    assert len(condition.divided) == _PARENTS
    Watched.reads = 0
    for parent in (f"p{number}" for number in range(_PARENTS)):
        matches = condition.predicate(parent)
        for number in range(_CHILDREN):
            is_named = number < _LITERALS // _PARENTS
            child = SimpleNamespace(key=ChildKey(parent, str(number)))
            assert matches(child) is (is_named is not (shape is _none_of))
    assert Watched.reads <= _READS * _LITERALS


@pytest.mark.parametrize("set_name", ["Lookup", "Field"])
def test_rows_are_compared_with_values_that_were_read_before(set_name: str) -> None:
    static_set = ENTITY_SETS[set_name]
    assert isinstance(static_set, StaticSet)
    rows = static_set.visible(frozenset())
    given = literals(LiteralType.TEXT, [row[static_set.key] for row in rows[:_LITERALS]] * 2)
    matching = StaticFilter(static_set, InList(static_set.key, given))
    assert [row for row in rows if matching.holds(row)] == rows[:_LITERALS]
    assert Watched.reads <= _READS * len(given)
