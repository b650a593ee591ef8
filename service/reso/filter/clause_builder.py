"""From a filter expression to an Elasticsearch clause, for one resource."""

from collections.abc import Callable

from service.errors import InvalidRequest
from service.reso.filter.expression import (
    And,
    AnyElement,
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    FunctionComparison,
    HasValue,
    InList,
    Negation,
    Or,
    TextCondition,
)
from service.reso.filter.matchers import MATCH_ALL, MATCH_NONE, Matcher, UnansweredFunction, UnsupportedComparison
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER
from service.search.query import Clause, match_any, match_none

# From a property name to its matcher; raises InvalidRequest for a property that cannot be filtered.
MatcherLookup = Callable[[str], Matcher]


def build_clause(expression: FilterExpression, matcher_for: MatcherLookup, *, is_negated: bool = False) -> Clause:
    """Return the clause for an expression; raise InvalidRequest for an unsupported comparison.

    Negation is pushed down to the comparisons, so that it adds no nesting of its own. A filter that no record of the
    resource matches is `MATCH_NONE`, which needs no search.
    """
    match expression:
        case And(parts) | Or(parts) if isinstance(expression, And) is is_negated:
            alternatives = parts if is_negated else _merge_equalities(parts)
            clauses = [build_clause(part, matcher_for, is_negated=is_negated) for part in alternatives]
            possible = [clause for clause in clauses if clause != MATCH_NONE]
            return match_any(*possible) if possible else MATCH_NONE
        case And(parts) | Or(parts):
            clauses = [build_clause(part, matcher_for, is_negated=is_negated) for part in parts]
            return MATCH_NONE if MATCH_NONE in clauses else {"bool": {"filter": clauses}}
        case Negation(part):
            return build_clause(part, matcher_for, is_negated=not is_negated)
        case _:
            clause = _comparison_clause(expression, matcher_for)
            return _negated(clause) if is_negated else clause


def _negated(clause: Clause) -> Clause:
    if clause in (MATCH_ALL, MATCH_NONE):
        return MATCH_NONE if clause == MATCH_ALL else MATCH_ALL
    return match_none(clause)


def _comparison_clause(condition: FieldCondition, matcher_for: MatcherLookup) -> Clause:
    try:
        return _matched(condition, matcher_for(condition.field))
    except UnsupportedComparison as fault:
        raise InvalidRequest.of(FILTER, f"{condition.field} {fault}.") from None
    except UnansweredFunction as fault:
        raise OptionNotImplemented(FILTER, f"{fault} for {condition.field}") from None


def _matched(condition: FieldCondition, matcher: Matcher) -> Clause:
    match condition:
        case InList(_, values):
            return matcher.match_any(values)
        case FieldComparison(_, operator, value):
            return _compared(matcher, operator, value)
        case HasValue(_, value):
            return matcher.match_has(value)
        case AnyElement(_, elements):
            return matcher.match_elements(elements)
        case TextCondition():
            return matcher.match_text(condition)
        case FunctionComparison(function, _, operator, value):
            return matcher.match_function(function, operator, value)


def _compared(matcher: Matcher, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
    if operator is ComparisonOperator.EQ:
        return matcher.match_any((value,))
    if operator is ComparisonOperator.NE:
        return _negated(matcher.match_any((value,)))
    return matcher.match_comparison(operator, value)


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
