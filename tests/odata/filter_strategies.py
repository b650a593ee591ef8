"""Filters made at random, each with what it means worked out in Python: nothing of the product judges."""

from __future__ import annotations

import datetime as dt
import operator
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    Entity = dict[str, Any]
    Predicate = Callable[[Entity], bool]
    # The text of a filter, and whether it holds for an entity.
    FilterCase = tuple[str, Predicate]

_ORDERED = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def quoted(text: object) -> str:
    """Return the literal of a text."""
    return "'" + str(text).replace("'", "''") + "'"


def _equal(name: str, values: list[Any], literal: Callable[[Any], str]) -> st.SearchStrategy[FilterCase]:
    value = st.sampled_from([*values, None])

    def text(one: Any) -> str:
        return "null" if one is None else literal(one)

    return st.one_of(
        value.map(lambda one: (f"{name} eq {text(one)}", lambda each: bool(each[name] == one))),
        value.map(lambda one: (f"{text(one)} ne {name}", lambda each: bool(each[name] != one))),
        st.lists(value, min_size=1, max_size=5).map(
            lambda some: (f"{name} in ( {' , '.join(map(text, some))})", lambda each: each[name] in some)
        ),
    )


def _compared(
    name: str, values: list[Any], literal: Callable[[Any], str], read: Callable[[Any], Any]
) -> st.SearchStrategy[FilterCase]:
    def made(way: str, value: Any) -> FilterCase:
        return (
            f"{name} {way} {literal(value)}",
            lambda each: each[name] is not None and bool(_ORDERED[way](read(each[name]), read(value))),
        )

    return st.builds(made, st.sampled_from(sorted(_ORDERED)), st.sampled_from(values))


def _identity(value: Any) -> Any:
    return value


def comparisons(
    entities: list[Entity], texts: tuple[str, ...], ordered: tuple[str, ...], moments: tuple[str, ...]
) -> st.SearchStrategy[FilterCase]:
    """Return comparisons with values that there are, and some that there are not."""
    found = [_equal(name, _values(entities, name), quoted) for name in texts]
    for name in ordered:
        values = [*_values(entities, name), "", "7", "it's", "~"]
        found += [_equal(name, values, quoted), _compared(name, values, quoted, _identity)]
    for name in moments:
        values = _values(entities, name)
        found += [_equal(name, values, _identity), _compared(name, values, _identity, dt.datetime.fromisoformat)]
    return st.one_of(found)


def _values(entities: list[Entity], name: str) -> list[Any]:
    return sorted({each[name] for each in entities} - {None})


def filter_expressions(leaves: st.SearchStrategy[FilterCase]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons joined by and, or and not, with parentheses where they are needed or do no harm."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda one: (f"not ({one[0]})", lambda each: not one[1](each))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: _combined("and", parts, all)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: _combined("or", parts, any)),
        ),
        max_leaves=8,
    )


def _combined(word: str, parts: list[FilterCase], judge: Callable[[list[bool]], bool]) -> FilterCase:
    text = f" {word} ".join(f"({one})" for one, _ in parts)
    return text, lambda each: judge([holds(each) for _, holds in parts])


def number_comparisons(name: str, values: list[int]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons of a number that is never null."""
    ways = _ORDERED | {"eq": operator.eq, "ne": operator.ne}

    def made(way: str, value: int) -> FilterCase:
        return f"{name} {way} {value}", lambda each: bool(ways[way](each[name], value))

    return st.builds(made, st.sampled_from(sorted(ways)), st.sampled_from(values))


def in_lists(name: str, values: list[str]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons of a text that is never null with several."""

    def made(some: list[str]) -> FilterCase:
        return f"{name} in ({','.join(map(quoted, some))})", lambda each: each[name] in some

    return st.lists(st.sampled_from(values), min_size=1, max_size=4).map(made)


def examples(strategy: st.SearchStrategy[FilterCase], number: int) -> list[FilterCase]:
    """Return examples of a strategy; the same ones in every run, so that what fails fails again."""
    found: list[FilterCase] = []

    @settings(max_examples=number, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def take(example: FilterCase) -> None:
        found.append(example)

    take()
    return found
