"""What the index has of children: a token of each in a search field of their parent, which tells its day and its start.

A comparison with a day or a start is a set of tokens, and so are comparisons joined by and, or, not.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import ceil, floor

import orjson

from mappings.listing import TOKENS
from mappings.open_houses import Token, instant_text
from service.request_context import RequestContext
from service.reso.filter.clauses import UnansweredFunction, UnsupportedComparison
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterLiteral,
    FunctionComparison,
    InList,
    LiteralType,
)
from service.reso.filter.value_matchers import PERIODS, DateMatcher, MomentMatcher, TimestampMatcher
from service.reso.sets.token_set import END, EVERY, LAST, NEXT, NONE, TokenSet
from service.search.query import Body, Selection

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY, _DAY_MILLISECONDS, _DAY_DIGITS = dt.timedelta(days=1), 86_400_000, 8
_WITH_DAY, _WITH_START, _DAY_ALONE = TokenSet(("-0",)), TokenSet(("0",)), TokenSet(("-0", "0"))


@dataclass(frozen=True)
class TokenMatcher:
    """A property that tokens tell, or several: its values as texts, in their order; the unknown one is empty.

    `literals` reads what it is compared with, `known` are the tokens with a value.
    """

    literals: MomentMatcher
    known: TokenSet
    value: Callable[[Token], str]

    def since(self, text: str) -> TokenSet:
        """Return the tokens of values at or after a text."""
        return self._since_day(text)

    def behind(self, value: str) -> TokenSet:
        """Return the tokens of values after one."""
        return self.since(value + NEXT) if value else self.known

    def within(self, first: str, last: str) -> TokenSet:
        """Return the tokens of values from one to another."""
        return (self.since(first) if first else EVERY) & ~self.behind(last)

    @property
    def parts(self) -> tuple[TokenSet, ...]:
        """The tokens with a value, in parts in each of which tokens are in the order of days."""
        return (_DAY_ALONE, _WITH_START)

    def reached(self, token: Token, *, is_descending: bool) -> str:
        """Return a text before which, or descending after which, there are no values of tokens behind this one."""
        return f"{token.day}{LAST}" if is_descending else token.day

    def tokens(self, condition: FieldCondition) -> TokenSet:
        """Return the tokens of the children that match; raise UnsupportedComparison or UnansweredFunction."""
        match condition:
            case InList(_, values):
                return TokenSet.union(self._compared(ComparisonOperator.EQ, value) for value in values)
            case FieldComparison(_, operator, value):
                return self._compared(operator, value)
            case FunctionComparison(function, _, operator, value):
                if (period := PERIODS.get(function)) is None:
                    raise UnansweredFunction(function)
                first, end = (self._since_day(_digits(at)[:_DAY_DIGITS]) for at in period(value))
                return self._beside(operator, first, end)
        raise UnsupportedComparison("is compared by eq, ne, gt, ge, lt, le and in")

    def _compared(self, operator: ComparisonOperator, value: FilterLiteral) -> TokenSet:
        if value.type is LiteralType.NULL:
            return {ComparisonOperator.EQ: ~self.known, ComparisonOperator.NE: self.known}.get(operator, NONE)
        if value.type is not self.literals.literal_type:
            raise UnsupportedComparison(f"is compared with {self.literals.literal_type}")
        first, end = map(self.since, self._period(self.literals.parse_number(value.text)))
        return self._beside(operator, first, end)

    def _period(self, milliseconds: Decimal) -> tuple[str, str]:
        """Return the texts at which a value begins and ends."""
        first = int(milliseconds)
        return _digits(first)[:_DAY_DIGITS], _digits(first + _DAY_MILLISECONDS)[:_DAY_DIGITS]

    def _since_day(self, text: str) -> TokenSet:
        return TokenSet((f"-{text}", "0", text)) & self.known

    def _beside(self, operator: ComparisonOperator, first: TokenSet, end: TokenSet) -> TokenSet:
        """Return the tokens of values beside those of a period, by the tokens since its beginning and its end."""
        match operator:
            case ComparisonOperator.EQ:
                return first & ~end
            case ComparisonOperator.NE:
                return ~(first & ~end)
            case ComparisonOperator.GT:
                return end
            case ComparisonOperator.GE:
                return first
            case ComparisonOperator.LT:
                return self.known & ~first
            case ComparisonOperator.LE:
                return self.known & ~end


class StartMatcher(TokenMatcher):
    """The start, an instant: that of a day is on this day in UTC, on the one before, or on the next."""

    def since(self, text: str) -> TokenSet:
        """Return the tokens of starts at or after a text."""
        day = text[:_DAY_DIGITS]
        before, after = _neighbours(day)
        ends = (f"{before}-{text}", f"{before}{LAST}", f"{day}-{text}", f"{day}{LAST}", f"{after}-{text}")
        return TokenSet(ends) if before < day else TokenSet((END,))

    @property
    def parts(self) -> tuple[TokenSet, ...]:
        """The tokens with a start."""
        return (_WITH_START,)

    def reached(self, token: Token, *, is_descending: bool) -> str:
        """Return a text before which, or descending after which, there are no starts of tokens behind this one."""
        before, after = _neighbours(token.day)
        return f"{after}{LAST}" if is_descending else before

    def _period(self, milliseconds: Decimal) -> tuple[str, str]:
        return _digits(ceil(milliseconds)), _digits(floor(milliseconds) + 1)


class DayAndStartMatcher(TokenMatcher):
    """The day, then the start: an order."""

    def since(self, text: str) -> TokenSet:
        """Return the tokens of days and starts at or after a text."""
        day, start = text[:_DAY_DIGITS], text[_DAY_DIGITS:]
        return TokenSet((f"-{day}{NEXT}", "0", f"{day}-{start.lstrip(NEXT)}")) if start else self._since_day(day)


def _digits(milliseconds: int) -> str:
    try:
        return instant_text(_EPOCH + dt.timedelta(milliseconds=milliseconds))
    except OverflowError:
        return END


@lru_cache(4096)
def _neighbours(day: str) -> tuple[str, str]:
    """Return the days before and after a day; for a text that is not a day, texts that sort after all days."""
    try:
        at = dt.date.fromisoformat(day)
    except ValueError:
        return END, END
    before = _day_text(at - _DAY) if at > dt.date.min else "0" * _DAY_DIGITS
    return before, _day_text(at + _DAY) if at < dt.date.max else END


def _day_text(at: dt.date) -> str:
    return at.isoformat().replace("-", "")


BY_DAY = TokenMatcher(DateMatcher(TOKENS), _WITH_DAY, lambda token: token.day)
BY_START = StartMatcher(TimestampMatcher(TOKENS), _WITH_START, lambda token: token.start)
BY_DAY_AND_START = DayAndStartMatcher(BY_DAY.literals, _WITH_DAY, lambda token: token.day + token.start)


async def count_tokens(call: RequestContext, selection: Selection, tokens: TokenSet) -> int:
    """Return the number of tokens of a set that the selected documents have."""
    if not (patterns := tokens.patterns):
        return 0
    counted = {
        str(at): {"terms": {"field": TOKENS, "include": pattern, "size": 1}} for at, pattern in enumerate(patterns)
    }
    body: Body = {"size": 0, "track_total_hits": False, "query": selection.query(), "aggs": counted}
    found = orjson.loads(await call.search(selection.resource, body))["aggregations"].values()
    # The size of the greatest bucket, and that of all others.
    greatest = sum(int(each["doc_count"]) for one in found for each in one["buckets"])
    return greatest + sum(int(one.get("sum_other_doc_count", 0)) for one in found)
