"""Filters made at random, each with what it means worked out in Python: nothing of the product judges."""

import datetime as dt
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Entity = dict[str, Any]
Predicate = Callable[[Entity], bool]
# The text of a filter, and whether it holds for an entity.
FilterCase = tuple[str, Predicate]

_ORDERED = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def _equal(name: str, values: list[Any], literal: Callable[[Any], str]) -> st.SearchStrategy[FilterCase]:
    def text(value: Any) -> str:
        return "null" if value is None else literal(value)

    value = st.sampled_from([*values, None])
    return st.one_of(
        value.map(lambda given: (f"{name} eq {text(given)}", lambda row: bool(row[name] == given))),
        value.map(lambda given: (f"{text(given)} ne {name}", lambda row: bool(row[name] != given))),
        in_lists(name, [*values, None], text),
    )


def _compared(
    name: str,
    values: list[Any],
    literal: Callable[[Any], str],
    read: Callable[[Any], Any],
    ways: Mapping[str, Callable[[Any, Any], bool]] = _ORDERED,
) -> st.SearchStrategy[FilterCase]:
    def made(way: str, value: Any) -> FilterCase:
        return (
            f"{name} {way} {literal(value)}",
            lambda row: row[name] is not None and bool(ways[way](read(row[name]), read(value))),
        )

    return st.builds(made, st.sampled_from(sorted(ways)), st.sampled_from(values))


def in_lists(name: str, values: list[Any], literal: Callable[[Any], str]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons with several values."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=5).map(
        lambda some: (f"{name} in ( {' , '.join(map(literal, some))})", lambda row: row[name] in some)
    )


def _identity(value: Any) -> Any:
    return value


class Searched(NamedTuple):
    """The names of properties by how they can be compared."""

    texts: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()


def comparisons(entities: list[Entity], searched: Searched) -> st.SearchStrategy[FilterCase]:
    """Return comparisons with values that there are, and some that there are not."""
    found = [_equal(name, _values(entities, name), quoted) for name in searched.texts]
    for name in searched.ordered:
        values = [*_values(entities, name), "", "7", "it's", "~"]
        found += [_equal(name, values, quoted), _compared(name, values, quoted, _identity)]
    for name in searched.moments:
        values = _values(entities, name)
        found += [_equal(name, values, _identity), _compared(name, values, _identity, dt.datetime.fromisoformat)]
    for name in (*searched.moments, *searched.days):
        found.append(_by_year(name, sorted({value[:4] for value in _values(entities, name)})))
    for name in (*searched.days, *searched.numbers):
        values = [*_values(entities, name), *([0, -1, 2.5, 1e300] if name in searched.numbers else [])]
        found += [_equal(name, values, str), _compared(name, values, str, _identity)]
    found += [_equal(name, [True, False], lambda value: str(value).lower()) for name in searched.flags]
    found += [_pattern(name, _values(entities, name)) for name in searched.patterns]
    for name in searched.collections:
        found.append(_elements(name, sorted({value for row in entities for value in row[name]})))
    return st.one_of(found)


def _by_year(name: str, years: list[str]) -> st.SearchStrategy[FilterCase]:
    ways = _ORDERED | {"eq": operator.eq}

    def made(way: str, year: str) -> FilterCase:
        return f"year({name}) {way} {year}", lambda row: bool(row[name] and ways[way](row[name][:4], year))

    return st.builds(made, st.sampled_from(sorted(ways)), st.sampled_from(years))


_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "startswith": str.startswith,
    "endswith": str.endswith,
}


def _pattern(name: str, values: list[str]) -> st.SearchStrategy[FilterCase]:
    """Return tests of a text by a piece of one, as it is or in lower case."""
    pieces = sorted({value[at : at + 3] for value in values for at in (0, 1, -3)} | {"*", "?", "\\", "a*"})

    def made(test: str, piece: str, is_folded: bool) -> FilterCase:
        fold = str.lower if is_folded else str
        field = f"tolower({name})" if is_folded else name
        return (
            f"{test}({field},{quoted(piece)})",
            lambda row: row[name] is not None and _TESTS[test](fold(row[name]), piece),
        )

    return st.builds(made, st.sampled_from(sorted(_TESTS)), st.sampled_from(pieces), st.booleans())


def _elements(name: str, values: list[str]) -> st.SearchStrategy[FilterCase]:
    value = st.sampled_from([*values, "", "~"])
    one = st.one_of(
        value.map(lambda text: (f"x eq {quoted(text)}", lambda element: element == text)),
        value.map(lambda text: (f"{quoted(text)} ne x", lambda element: element != text)),
        st.lists(value, min_size=1, max_size=3).map(
            lambda texts: (f"x in ({','.join(map(quoted, texts))})", lambda element: element in texts)
        ),
    )
    condition: st.SearchStrategy[Any] = filter_expressions(one)

    def made(word: str, given: Any) -> FilterCase:
        text, holds = given
        judge = any if word == "any" else all
        return f"{name}/{word}(x:{text})", lambda entity: judge(map(holds, entity[name]))

    present: FilterCase = (f"{name}/any()", lambda row: bool(row[name]))
    return st.one_of(st.builds(made, st.sampled_from(["all", "any"]), condition), st.just(present))


def _values(entities: list[Entity], name: str) -> list[Any]:
    return sorted({row[name] for row in entities} - {None})


def filter_expressions(leaves: st.SearchStrategy[FilterCase]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons joined by and, or and not, with parentheses where they are needed or do no harm."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda one: (f"not ({one[0]})", lambda value: not one[1](value))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: _combined("and", parts, all)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: _combined("or", parts, any)),
        ),
        max_leaves=8,
    )


def _combined(word: str, parts: list[FilterCase], judge: Callable[[list[bool]], bool]) -> FilterCase:
    text = f" {word} ".join(f"({one})" for one, _ in parts)
    return text, lambda value: judge([holds(value) for _, holds in parts])


def number_comparisons(name: str, values: list[int]) -> st.SearchStrategy[FilterCase]:
    """Return comparisons of a number that is never null."""
    return _compared(name, values, str, _identity, _ORDERED | {"eq": operator.eq, "ne": operator.ne})


def examples(strategy: st.SearchStrategy[FilterCase], number: int) -> list[FilterCase]:
    """Return examples of a strategy; the same ones in every run, so that what fails fails again."""
    found: list[FilterCase] = []

    @settings(max_examples=number, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def take(example: FilterCase) -> None:
        found.append(example)

    take()
    return found
