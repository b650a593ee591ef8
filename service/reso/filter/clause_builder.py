"""From a filter expression to an Elasticsearch clause, for one resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import InvalidRequest
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    InList,
    Negation,
    Or,
)
from service.reso.filter.matchers import Matcher, UnsupportedComparison
from service.reso.protocol.option_names import FILTER
from service.search.query import Clause, match_any, match_none

if TYPE_CHECKING:
    from collections.abc import Callable

    # From a property name to its matcher; raises InvalidRequest for a property that cannot be filtered.
    MatcherLookup = Callable[[str], Matcher]


def build_clause(expression: FilterExpression, matcher_for: MatcherLookup, *, is_negated: bool = False) -> Clause:
    """Return the clause for an expression; raise InvalidRequest for an unsupported comparison.

    Negation is pushed down to the comparisons, so that it adds no nesting of its own.
    """
    match expression:
        case And(parts) | Or(parts) if isinstance(expression, And) is is_negated:
            alternatives = parts if is_negated else _merge_equalities(parts)
            return match_any(*(build_clause(part, matcher_for, is_negated=is_negated) for part in alternatives))
        case And(parts) | Or(parts):
            return {"bool": {"filter": [build_clause(part, matcher_for, is_negated=is_negated) for part in parts]}}
        case Negation(part):
            return build_clause(part, matcher_for, is_negated=not is_negated)
        case _:
            clause = _comparison_clause(expression, matcher_for)
            return match_none(clause) if is_negated else clause


def _comparison_clause(expression: FieldComparison | InList, matcher_for: MatcherLookup) -> Clause:
    match expression:
        case InList(name, values):
            return _in_clause(name, values, matcher_for)
        case FieldComparison(name, ComparisonOperator.EQ, value):
            return _in_clause(name, (value,), matcher_for)
        case FieldComparison(name, ComparisonOperator.NE, value):
            return match_none(_in_clause(name, (value,), matcher_for))
        case FieldComparison(name, operator, value):
            return _match(name, lambda matcher: matcher.match_comparison(operator, value), matcher_for)


def _in_clause(name: str, values: tuple[FilterLiteral, ...], matcher_for: MatcherLookup) -> Clause:
    return _match(name, lambda matcher: matcher.match_any(values), matcher_for)


def _match(name: str, build: Callable[[Matcher], Clause], matcher_for: MatcherLookup) -> Clause:
    try:
        return build(matcher_for(name))
    except UnsupportedComparison as fault:
        raise InvalidRequest.of(FILTER, f"{name} {fault}.") from None


def _merge_equalities(parts: tuple[FilterExpression, ...]) -> list[FilterExpression]:
    """Merge the equalities of each property into one list, which Elasticsearch looks up at once."""
    equal: dict[str, list[FilterLiteral]] = {}
    others: list[FilterExpression] = []
    for part in parts:
        match part:
            case FieldComparison(name, ComparisonOperator.EQ, value):
                equal.setdefault(name, []).append(value)
            case InList(name, values):
                equal.setdefault(name, []).extend(values)
            case _:
                others.append(part)
    return [*(InList(name, tuple(values)) for name, values in equal.items()), *others]
