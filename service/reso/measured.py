"""Properties that are numbers where they are indexed: moments, days, and whole numbers themselves."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from service.query import absent, terms
from service.reso.exact import BOUNDS, NOTHING, Ordered, Unfit
from service.reso.expression import Operator, Sort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.query import Clause

_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2})?)(\.\d{1,12})?(Z|[+-]\d{2}:\d{2})", re.ASCII | re.IGNORECASE
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_MILLISECONDS = 86_400_000
# As Elasticsearch's `long`, and the type `Edm.Int64`.
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Whole(Ordered):
    """A whole number of a field; subclasses read it from other literals and in other units."""

    name: str
    wanted = Sort.NUMBER

    def exactly(self, text: str) -> Decimal:
        """Return the number that a literal stands for, perhaps with a fraction; raise Unfit."""
        return Decimal(text)

    def equal(self, values: Sequence[str]) -> Clause:
        """Match records with one of these numbers."""
        within = [number for number in map(self.exactly, values) if abs(number) <= LARGEST]
        whole = [int(number) for number in within if number == number.to_integral_value()]
        return terms(self.name, whole) if whole else NOTHING

    def bounded(self, operator: Operator, value: str) -> Clause:
        """Match numbers beyond one: what lies between two whole numbers is brought to the nearest that counts."""
        number = self.exactly(value)
        limit = max(Decimal(-LARGEST), min(Decimal(LARGEST), number))
        floor = int(limit.to_integral_value("ROUND_FLOOR"))
        is_whole = limit == floor
        if operator in {Operator.GT, Operator.LE} or is_whole:
            return {"range": {self.name: {BOUNDS[operator]: floor}}}
        # At least, or below, what is not whole: above the whole number before it, or up to that.
        return {"range": {self.name: {"gt" if operator is Operator.GE else "lte": floor}}}


@dataclass(frozen=True)
class Moment(Whole):
    """A moment in milliseconds since 1970."""

    wanted = Sort.MOMENT

    def exactly(self, text: str) -> Decimal:
        """Return the milliseconds of a moment, however fine it is given."""
        match = _MOMENT.fullmatch(text)
        try:
            at = dt.datetime.fromisoformat(match[1] + match[3].upper()) if match else None
            passed = at - _EPOCH if at else None
        except (ValueError, OverflowError):
            passed = None
        if match is None or passed is None:
            raise Unfit(f"is compared with {self.wanted}; {text[:40]!r} is none (Z or an offset is needed)")
        milliseconds = (passed.days * 86_400 + passed.seconds) * 1000
        return milliseconds + Decimal(match[2] or 0) * 1000


@dataclass(frozen=True)
class Day(Whole):
    """A day as the milliseconds of its first moment."""

    wanted = Sort.DAY

    def exactly(self, text: str) -> Decimal:
        """Return the milliseconds of a day."""
        try:
            return Decimal((dt.date.fromisoformat(text) - _EPOCH.date()).days * _DAY_MILLISECONDS)
        except ValueError:
            raise Unfit(f"is compared with {self.wanted}; {text[:40]!r} is none") from None

    def missing(self) -> Clause:
        """Match records without the day."""
        return absent(self.name)
