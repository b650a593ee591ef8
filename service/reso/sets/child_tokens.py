"""Comparisons of children by what the index has of each: a token in a search field of their parent.

A comparison with a day is a set of tokens, and so are comparisons joined by and, or, not. A parent has a
child in a set if one of its tokens is in one of the ranges of the set. Their number is that of the tokens, which differ
within a parent, so an aggregation counts them without reading a parent.
"""

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from operator import and_, or_
from typing import NamedTuple, Self

import orjson

from mappings.open_houses import DAYS, UNKNOWN_DAY
from service.request_context import RequestContext
from service.reso.filter.clauses import MATCH_NONE, UnansweredFunction, UnsupportedComparison
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterLiteral,
    FunctionComparison,
    InList,
    LiteralType,
)
from service.reso.filter.value_matchers import PERIODS, DateMatcher
from service.search.query import Body, Clause, Selection, match_any


class TokenSet(NamedTuple):
    """A set of texts: where it begins, ends, begins again, in order."""

    bounds: tuple[str, ...] = ("",)

    def has(self, text: str) -> bool:
        return bisect_right(self.bounds, text) % 2 == 1

    def __and__(self, other: Self) -> Self:
        return self._joined(other, and_)

    def __or__(self, other: Self) -> Self:
        return self._joined(other, or_)

    def __invert__(self) -> Self:
        return type(self)(self.bounds[1:] if self.bounds[:1] == ("",) else ("", *self.bounds))

    def _joined(self, other: Self, join: Callable[[bool, bool], bool]) -> Self:
        cuts = sorted({*self.bounds, *other.bounds})
        return self.of_segments((at, join(self.has(at), other.has(at))) for at in cuts)

    @classmethod
    def of_segments(cls, segments: Iterable[tuple[str, bool]]) -> Self:
        """Return a set by the texts at which segments begin, in order, and whether these belong to it."""
        bounds: list[str] = []
        for at, is_within in segments:
            if is_within is not (len(bounds) % 2 == 1):
                bounds.append(at)
        return cls(tuple(bounds))

    @classmethod
    def between(cls, start: str, end: str) -> Self:
        return cls((start, end) if start < end else ())

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[str, ...]]) -> Self:
        """Return the union of ranges, some of which may be empty."""
        bounds: list[str] = []
        for start, end in sorted((found[0], found[1]) for found in ranges if found):
            if bounds and start <= bounds[-1]:
                bounds[-1] = max(bounds[-1], end)
            else:
                bounds += (start, end)
        return cls(tuple(bounds))

    @property
    def ranges(self) -> Iterator[tuple[str, str | None]]:
        """Yield where each range begins and ends, None if it does not end."""
        return zip_longest(self.bounds[::2], self.bounds[1::2])

    def entered(self, after: str | None, *, is_descending: bool) -> str | None:
        """Return a text without members of the set between it and another one; None: from the first, or the last."""
        if is_descending:
            before = len(self.bounds) if after is None else bisect_left(self.bounds, after)
            return self.bounds[before - 1] if before and before % 2 == 0 else after
        behind = bisect_right(self.bounds, after or "")
        if behind % 2 or behind == len(self.bounds):
            return after
        start = self.bounds[behind]
        return f"{start[:-1]}{chr(ord(start[-1]) - 1)}{_BEHIND}"

    def clause(self, field: str) -> Clause:
        """Match documents with a token in the set."""
        bounds = [{"gte": start} | ({"lt": end} if end else {}) for start, end in self.ranges]
        clauses: list[Clause] = [{"range": {field: bound}} for bound in bounds]
        return match_any(*clauses) if clauses else MATCH_NONE


EVERY, NONE = TokenSet(), TokenSet(())


def tokens_of_prefix(text: str) -> TokenSet:
    """Return the tokens that begin with a text."""
    return TokenSet((text, text + _BEHIND))


_UNKNOWN, _KNOWN = TokenSet(("", "0")), TokenSet(("0",))
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Behind all digits, and behind whatever a token goes on with.
_END, _BEHIND = ":", "~"
_DIGITS, _DAY_MILLISECONDS = 8, 86_400_000
# Of a regular expression, which has up to 1,000 characters.
_ALTERNATIVES = 30


@dataclass(frozen=True)
class TokenMatcher:
    """A property of children, a day: the search field whose tokens begin with it, and its literals."""

    field: str
    literals: DateMatcher

    def tokens(self, condition: FieldCondition) -> TokenSet:
        """Return the tokens of the children that match; raise UnsupportedComparison or UnansweredFunction."""
        match condition:
            case InList(_, values):
                return TokenSet.of_ranges(self._compared(ComparisonOperator.EQ, value).bounds for value in values)
            case FieldComparison(_, operator, value):
                return self._compared(operator, value)
            case FunctionComparison(function, _, operator, value):
                if (period := PERIODS.get(function)) is None:
                    raise UnansweredFunction(function)
                first, end = map(_day_text, period(value))
                return _beside(operator, first, end)
        raise UnsupportedComparison("is compared by eq, ne, gt, ge, lt, le and in")

    def _compared(self, operator: ComparisonOperator, value: FilterLiteral) -> TokenSet:
        if value.type is LiteralType.NULL:
            return {ComparisonOperator.EQ: _UNKNOWN, ComparisonOperator.NE: _KNOWN}.get(operator, NONE)
        if value.type is not self.literals.literal_type:
            raise UnsupportedComparison(f"is compared with {self.literals.literal_type}")
        day = int(self.literals.parse_number(value.text))
        return _beside(operator, _day_text(day), _day_text(day + _DAY_MILLISECONDS))

    def patterns(self, tokens: TokenSet) -> list[str]:
        """Return regular expressions of a set of tokens, each shorter than Elasticsearch's limit."""
        parts = [f"{part}.*" for start, end in tokens.ranges for part in _parts(start, end)]
        return ["|".join(parts[at : at + _ALTERNATIVES]) for at in range(0, len(parts), _ALTERNATIVES)]


def _day_text(milliseconds: int) -> str:
    """Return what begins the tokens of the day with an instant."""
    try:
        return f"{_EPOCH + dt.timedelta(milliseconds=milliseconds):%Y%m%d}".rjust(_DIGITS, "0")
    except OverflowError:
        return _END


def _parts(start: str, end: str | None) -> Iterator[str]:
    if start < "0":
        yield UNKNOWN_DAY
    if end == "0" or start >= _END:
        return
    first = int(max(start, "0").ljust(_DIGITS, "0"))
    last = 10**_DIGITS if end is None or end == _END else int(end)
    if first < last:
        yield f"<{first:0{_DIGITS}}-{last - 1:0{_DIGITS}}>"


def _beside(operator: ComparisonOperator, first: str, end: str) -> TokenSet:
    """Return the tokens of values equal to, before or behind those between two texts; unknown values differ."""
    match operator:
        case ComparisonOperator.EQ:
            return TokenSet.between(first, end)
        case ComparisonOperator.NE:
            return ~TokenSet.between(first, end)
        case ComparisonOperator.GT:
            return TokenSet((end,))
        case ComparisonOperator.GE:
            return TokenSet((first,))
        case ComparisonOperator.LT:
            return TokenSet.between("0", first)
        case ComparisonOperator.LE:
            return TokenSet.between("0", end)


async def count_tokens(call: RequestContext, selection: Selection, matcher: TokenMatcher, tokens: TokenSet) -> int:
    """Return the number of tokens of a set that the selected documents have."""
    if not (patterns := matcher.patterns(tokens)):
        return 0
    counted = {
        str(at): {"terms": {"field": matcher.field, "include": pattern, "size": 1}}
        for at, pattern in enumerate(patterns)
    }
    body: Body = {"size": 0, "track_total_hits": False, "query": selection.query(), "aggs": counted}
    found = orjson.loads(await call.search(selection.resource, body))["aggregations"].values()
    # The size of the greatest bucket, and that of all others.
    greatest = sum(int(each["doc_count"]) for one in found for each in one["buckets"])
    return greatest + sum(int(one.get("sum_other_doc_count", 0)) for one in found)


BY_DAY = TokenMatcher(DAYS, DateMatcher(DAYS))
