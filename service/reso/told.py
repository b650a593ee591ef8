"""How events are found: by number through the ledger, by key through identifiers; and from where a filter begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from service.query import terms
from service.reso.exact import NOTHING, Equal
from service.reso.expression import Among, Both, Comparison, Either, Expression, Literal, Not, Operator, Sort
from service.reso.measured import LARGEST, Whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.query import Clause
    from service.reso.sequence import Ledger

_NEGATED = {Operator.LT: Operator.GE, Operator.LE: Operator.GT}


@dataclass(frozen=True)
class Numbered(Whole):
    """The number of an event: of one resource a range of sequences."""

    ledger: Ledger = field(kw_only=True, hash=False)
    alias: str = field(kw_only=True)

    def equal(self, values: Sequence[str]) -> Clause:
        """Match the events with one of these numbers."""
        numbers = [int(number) for number in map(_clamped, values) if number == number.to_integral_value()]
        places = [(self._place(number), number) for number in numbers]
        found = [place for place, number in places if place > self._place(number - 1)]
        return terms(self.name, found) if found else NOTHING

    def bounded(self, operator: Operator, value: str) -> Clause:
        """Match the events beyond a number."""
        behind = self._place(_last_before(operator, value))
        return {"range": {self.name: {"gt" if operator in {Operator.GT, Operator.GE} else "lte": behind}}}

    def _place(self, number: int) -> int:
        return self.ledger.place(self.alias, number)


def _clamped(text: str) -> Decimal:
    """Return a number, or for one beyond all that are ever given the nearest that is beyond them, too."""
    return max(Decimal(-1), min(Decimal(LARGEST), Decimal(text)))


def _last_before(operator: Operator, text: str) -> int:
    """Return the last whole number that `gt` and `ge` leave out, or that `lt` and `le` let in."""
    number = _clamped(text)
    if operator in {Operator.GT, Operator.LE}:
        return int(number.to_integral_value("ROUND_FLOOR"))
    return int(number.to_integral_value("ROUND_CEILING")) - 1


@dataclass(frozen=True)
class Recorded(Equal):
    """The key of the record that an event is about; `departures` are the documents of those that went, by key."""

    departures: Mapping[str, Sequence[str]] = field(hash=False)

    def equal(self, values: Sequence[str]) -> Clause:
        """Match the events of records with one of these keys."""
        names = [name for key in values for name in (key, *self.departures.get(key, ())) if name]
        return terms("_id", names) if names else NOTHING


def lower_bound(expression: Expression, name: str, *, is_negated: bool = False) -> int:
    """Return the largest number that a filter surely leaves out by `gt` and `ge` of a property; 0 where there is none.

    It is the place that a reader goes on from.
    """
    match expression:
        case Not(part):
            return lower_bound(part, name, is_negated=not is_negated)
        case Both(parts) | Either(parts):
            bounds = [lower_bound(part, name, is_negated=is_negated) for part in parts]
            return max(bounds) if isinstance(expression, Both) is not is_negated else min(bounds)
        case Comparison(field=compared, operator=operator, value=Literal(Sort.NUMBER, text)) if compared == name:
            told = _NEGATED.get(operator) if is_negated else operator
            return max(0, _last_before(told, text)) if told in {Operator.GT, Operator.GE} else 0
        case _:
            return 0


def compared_texts(expression: Expression, name: str) -> set[str]:
    """Return every text that a property is compared with."""
    match expression:
        case Not(part):
            return compared_texts(part, name)
        case Both(parts) | Either(parts):
            return {text for part in parts for text in compared_texts(part, name)}
        case Comparison(field=compared, value=value) if compared == name:
            return {value.text}
        case Among(field=compared, values=values) if compared == name:
            return {value.text for value in values}
        case _:
            return set()
