"""From what a filter says to a clause of Elasticsearch, for one of our resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import InvalidRequest
from service.query import Clause, either, neither
from service.reso.exact import Found, Unfit
from service.reso.expression import Among, Both, Comparison, Either, Expression, Literal, Not, Operator
from service.reso.options import FILTER

if TYPE_CHECKING:
    from collections.abc import Callable

    # From the name of a property to how it is found; raises InvalidRequest for one that is not.
    Finding = Callable[[str], Found]


def clause_of(expression: Expression, finding: Finding, *, is_negated: bool = False) -> Clause:
    """Return the clause for an expression; raise InvalidRequest that names what cannot be compared.

    Negation is brought down to the comparisons, so that it makes no level of its own.
    """
    match expression:
        case Both(parts) | Either(parts) if isinstance(expression, Both) is is_negated:
            alternatives = parts if is_negated else _gathered(parts)
            return either(*(clause_of(part, finding, is_negated=is_negated) for part in alternatives))
        case Both(parts) | Either(parts):
            return {"bool": {"filter": [clause_of(part, finding, is_negated=is_negated) for part in parts]}}
        case Not(part):
            return clause_of(part, finding, is_negated=not is_negated)
        case _:
            clause = _compared(expression, finding)
            return neither(clause) if is_negated else clause


def _compared(expression: Comparison | Among, finding: Finding) -> Clause:
    match expression:
        case Among(name, values):
            return _among(name, values, finding)
        case Comparison(name, Operator.EQ, value):
            return _among(name, (value,), finding)
        case Comparison(name, Operator.NE, value):
            return neither(_among(name, (value,), finding))
        case Comparison(name, operator, value):
            return _judged(name, lambda found: found.compare(operator, value), finding)


def _among(name: str, values: tuple[Literal, ...], finding: Finding) -> Clause:
    return _judged(name, lambda found: found.among(values), finding)


def _judged(name: str, made: Callable[[Found], Clause], finding: Finding) -> Clause:
    try:
        return made(finding(name))
    except Unfit as fault:
        raise InvalidRequest.of(FILTER, f"{name} {fault}.") from None


def _gathered(parts: tuple[Expression, ...]) -> list[Expression]:
    """Return alternatives with all equalities of one property as one: Elasticsearch looks them up together."""
    equal: dict[str, list[Literal]] = {}
    others: list[Expression] = []
    for part in parts:
        match part:
            case Comparison(name, Operator.EQ, value):
                equal.setdefault(name, []).append(value)
            case Among(name, values):
                equal.setdefault(name, []).extend(values)
            case _:
                others.append(part)
    return [*(Among(name, tuple(values)) for name, values in equal.items()), *others]
