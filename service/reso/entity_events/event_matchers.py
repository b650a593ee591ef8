"""Matchers of events: by number through the ledger, by key through document ids; and the lower bound of a filter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from service.reso.entity_events.event_ledger import EventLedger
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Negation,
    Or,
)
from service.reso.filter.matchers import MATCH_NONE, EqualityMatcher
from service.reso.filter.numeric_matchers import MAX_INT64, IntegerMatcher
from service.search.query import Clause, spellings, terms

_NEGATED_OPERATORS = {ComparisonOperator.LT: ComparisonOperator.GE, ComparisonOperator.LE: ComparisonOperator.GT}


@dataclass(frozen=True)
class EventNumberMatcher(IntegerMatcher):
    """The event number: in each resource a range of sequences."""

    ledger: EventLedger = field(kw_only=True, hash=False)
    alias: str = field(kw_only=True)

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match the events with one of these numbers."""
        numbers = [int(number) for number in map(_clamped, values) if number == number.to_integral_value()]
        pairs = [(self._sequence(number), self._sequence(number - 1)) for number in numbers]
        sequences = [sequence for sequence, previous in pairs if sequence > previous]
        return terms(self.name, sequences) if sequences else MATCH_NONE

    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        """Match events beyond a number."""
        bound = self._sequence(_exclusive_bound(operator, value))
        return {
            "range": {self.name: {"gt" if operator in {ComparisonOperator.GT, ComparisonOperator.GE} else "lte": bound}}
        }

    def _sequence(self, number: int) -> int:
        return self.ledger.sequence_at(self.alias, number)


# A filter is built once for each of five resources; it has fewer values than this.
_REMEMBERED_NUMBERS = 512


@lru_cache(_REMEMBERED_NUMBERS)
def _clamped(text: str) -> Decimal:
    """Return a number, clamped to just outside the range of event numbers."""
    return max(Decimal(-1), min(Decimal(MAX_INT64), Decimal(text)))


@lru_cache(_REMEMBERED_NUMBERS)
def _exclusive_bound(operator: ComparisonOperator, text: str) -> int:
    """Return the greatest whole number that `gt` and `ge` exclude, or that `lt` and `le` include."""
    number = _clamped(text)
    if operator in {ComparisonOperator.GT, ComparisonOperator.LE}:
        return int(number.to_integral_value("ROUND_FLOOR"))
    return int(number.to_integral_value("ROUND_CEILING")) - 1


@dataclass(frozen=True)
class EventKeyMatcher(EqualityMatcher):
    """The key of the changed record; `moves_by_key` holds the ids of move documents by key."""

    moves_by_key: Mapping[str, Sequence[str]] = field(hash=False)

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match the events of records with one of these keys."""
        keys = [key for value in values for key in spellings(value)]
        names = [name for key in keys for name in (key, *self.moves_by_key.get(key, ())) if name]
        return terms("_id", names) if names else MATCH_NONE


def filter_lower_bound(expression: FilterExpression, name: str, *, is_negated: bool = False) -> int:
    """Return the largest number that a filter certainly excludes by `gt` or `ge` of a property, 0 if none.

    It is the position from which a reader continues.
    """
    match expression:
        case Negation(part):
            return filter_lower_bound(part, name, is_negated=not is_negated)
        case And(parts) | Or(parts):
            bounds = [filter_lower_bound(part, name, is_negated=is_negated) for part in parts]
            return max(bounds) if isinstance(expression, And) is not is_negated else min(bounds)
        case FieldComparison(field=compared, operator=operator, value=FilterLiteral(LiteralType.NUMBER, text)) if (
            compared == name
        ):
            effective = _NEGATED_OPERATORS.get(operator) if is_negated else operator
            if effective not in {ComparisonOperator.GT, ComparisonOperator.GE}:
                return 0
            return max(0, _exclusive_bound(effective, text))
        case _:
            return 0


def compared_values(expression: FilterExpression, name: str) -> set[str]:
    """Return every text that a property is compared with."""
    match expression:
        case Negation(part):
            return compared_values(part, name)
        case And(parts) | Or(parts):
            return {text for part in parts for text in compared_values(part, name)}
        case FieldComparison(field=compared, value=value) if compared == name:
            return {value.text}
        case InList(field=compared, values=values) if compared == name:
            return {value.text for value in values}
        case _:
            return set()
