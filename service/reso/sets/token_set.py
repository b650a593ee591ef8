"""Sets of texts, as ranges: of the tokens that the index has of children, each in a search field of their parent.

A parent has a child in a set if one of its tokens is in one of the ranges. The tokens of a parent differ, so an
aggregation by a regular expression counts the children in a set without reading a parent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from operator import and_, or_
from re import escape
from typing import NamedTuple, Self

from mappings.listing import TOKENS
from service.reso.filter.clauses import MATCH_NONE
from service.search.query import Clause, match_any

# Behind all digits; behind a hyphen and before all digits; behind all characters of tokens.
END, NEXT, LAST = ":", ".", "~"
# Characters of a regular expression; Elasticsearch takes 1,000.
_MAX_PATTERN = 900


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
    def union(cls, sets: Iterable[Self]) -> Self:
        """Return the union of many sets."""
        bounds: list[str] = []
        for start, end in sorted((start, end or LAST) for one in sets for start, end in one.ranges):
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
        return f"{start[:-1]}{chr(ord(start[-1]) - 1)}{LAST}"

    @property
    def clause(self) -> Clause:
        """The clause for documents with a token in the set."""
        bounds = [{"gte": start} | ({"lt": end} if end else {}) for start, end in self.ranges]
        clauses: list[Clause] = [{"range": {TOKENS: bound}} for bound in bounds]
        return match_any(*clauses) if clauses else MATCH_NONE

    @property
    def patterns(self) -> list[str]:
        """Regular expressions of the tokens in the set, which no token is in twice."""
        found: list[str] = []
        for pattern in (_pattern(start, end) for start, end in self.ranges):
            if found and len(found[-1]) + len(pattern) < _MAX_PATTERN:
                found[-1] += f"|{pattern}"
            else:
                found.append(pattern)
        return found


EVERY, NONE = TokenSet(), TokenSet(())


def _pattern(start: str, end: str | None) -> str:
    """Return a regular expression of the texts from one to before another; no token is the beginning of either."""
    if end is None:
        return _at_least(start)
    if not start:
        return _below(end)
    low, high = start[0], end[0]
    if low == high:
        return f"{escape(low)}{_pattern(start[1:], end[1:])}"
    lowest, between = f"{escape(low)}{_at_least(start[1:])}", _characters(chr(ord(low) + 1), chr(ord(high) - 1))
    highest = f"{escape(high)}{_below(end[1:])}" if end[1:] else ""
    return f"({'|'.join(filter(None, (lowest, between, highest)))})"


def _at_least(text: str) -> str:
    if not text:
        return ".*"
    within, above = f"{escape(text[0])}{_at_least(text[1:])}", _characters(chr(ord(text[0]) + 1), LAST)
    return f"({'|'.join(filter(None, (within, above)))})"


def _below(text: str) -> str:
    if not text:
        return ""
    before, within = _characters(" ", chr(ord(text[0]) - 1)), _below(text[1:])
    return f"({before}|{escape(text[0])}{within})" if within else before


def _characters(first: str, last: str) -> str:
    # Not escaped: within brackets, Lucene reads escapes in another way.
    return f"[{first}-{last}].*" if first <= last else ""
