"""Matchers of converted values: lookups, and what is indexed as numbers, among them timestamps and dates.

The names of lookups are derived from codes or from the presence of a field.
"""

import datetime as dt
import re
import time
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from math import isfinite
from sys import float_info

from mappings.data_dictionary import alphanumeric_key
from service.reso.filter.clauses import (
    MATCH_ALL,
    MATCH_NONE,
    RANGE_OPERATORS,
    EqualityMatcher,
    RangeMatcher,
    UnansweredFunction,
    UnsupportedComparison,
)
from service.reso.filter.expression import NOW, ComparisonOperator, FieldFunction, FilterLiteral, LiteralType
from service.search.query import Clause, lacks_field, match_any, match_none, terms

# Characters of a lookup value; names have up to 50.
_MAX_LOOKUP_LENGTH = 128


def _lookup_keys(values: Sequence[str], names: Collection[str], known: Container[str]) -> set[str]:
    """Return the normal forms of lookup values, without case and punctuation.

    `known` are those of the valid names; raise UnsupportedComparison for any other value.
    """
    # One by one and each once: normalization takes 0.1 µs per character.
    keys = {value: alphanumeric_key(value) if len(value) <= _MAX_LOOKUP_LENGTH else "" for value in {*values}}
    if unknown := [value for value, key in keys.items() if key not in known]:
        raise UnsupportedComparison(f"has no value {unknown[0][:40]!r}; it is one of {', '.join(names)}")
    return {*keys.values()}


@dataclass(frozen=True)
class CodeMatcher(EqualityMatcher):
    """A lookup whose names are indexed as codes: `codes` maps each name to its codes."""

    name: str
    codes: Mapping[str, tuple[object, ...]] = field(hash=False)

    @cached_property
    def _known(self) -> dict[str, tuple[object, ...]]:
        return {alphanumeric_key(name): codes for name, codes in self.codes.items()}

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with these names; raise UnsupportedComparison for an unknown name."""
        matching = [code for key in sorted(_lookup_keys(values, self.codes, self._known)) for code in self._known[key]]
        return terms(self.name, matching) if matching else MATCH_NONE

    def match_missing(self) -> Clause:
        """Match records whose code has no name."""
        return match_none(terms(self.name, [code for codes in self.codes.values() for code in codes]))


@dataclass(frozen=True)
class ConstantMatcher(EqualityMatcher):
    """The same text on all records of a resource; `names` are the valid names, empty if any text is."""

    value: str
    names: tuple[str, ...] = ()

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match all records or none; raise UnsupportedComparison for an unknown name."""
        if not self.names:
            return MATCH_ALL if self.value in values else MATCH_NONE
        keys = _lookup_keys(values, self.names, self._known)
        return MATCH_ALL if alphanumeric_key(self.value) in keys else MATCH_NONE

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(map(alphanumeric_key, self.names))


@dataclass(frozen=True)
class PresenceMatcher(EqualityMatcher):
    """A text that depends on whether a field exists: `present_value` or `absent_value`."""

    name: str
    present_value: str
    absent_value: str

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with or without the field; raise UnsupportedComparison for any other text."""
        names: dict[str, Clause] = {
            self.present_value: {"exists": {"field": self.name}},
            self.absent_value: lacks_field(self.name),
        }
        if unknown := [value for value in values if value not in names]:
            raise UnsupportedComparison(
                f"has no value {unknown[0][:40]!r}; it is {self.present_value} or {self.absent_value}"
            )
        return match_any(*(clause for name, clause in names.items() if name in values))


_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2})?)(\.\d{1,12})?(Z|[+-]\d{2}:\d{2})", re.ASCII | re.IGNORECASE
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECONDS_PER_DAY = 86_400_000
# As Elasticsearch's `long`, and the type `Edm.Int64`.
MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class IntegerMatcher(RangeMatcher):
    """An indexed whole number; subclasses parse other literals into it."""

    name: str
    literal_type = LiteralType.NUMBER

    def parse_number(self, text: str) -> Decimal:
        """Return the number of a literal, possibly with a fraction; raise UnsupportedComparison."""
        return Decimal(text)

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with one of these numbers."""
        within = [number for number in map(self.parse_number, values) if abs(number) <= MAX_INT64]
        whole = [int(number) for number in within if number == number.to_integral_value()]
        return terms(self.name, whole) if whole else MATCH_NONE

    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        """Match numbers beyond a bound; a bound with a fraction is rounded to the equivalent whole number."""
        number = self.parse_number(value)
        limit = max(Decimal(-MAX_INT64), min(Decimal(MAX_INT64), number))
        floor = int(limit.to_integral_value("ROUND_FLOOR"))
        is_whole = limit == floor
        if operator in {ComparisonOperator.GT, ComparisonOperator.LE} or is_whole:
            return {"range": {self.name: {RANGE_OPERATORS[operator]: floor}}}
        # x >= 1.5 is x > 1, and x < 1.5 is x <= 1.
        return {"range": {self.name: {"gt" if operator is ComparisonOperator.GE else "lte": floor}}}


@dataclass(frozen=True)
class MomentMatcher(IntegerMatcher):
    """Milliseconds since 1970, whose year and day (UTC) can be compared."""

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match by year or day; raise UnsupportedComparison or UnansweredFunction."""
        if (read := PERIODS.get(function)) is None:
            raise UnansweredFunction(function)
        start, end = read(value)
        within: Clause = {"range": {self.name: {"gte": start, "lt": end}}}
        bounds = {
            ComparisonOperator.GT: {"gte": end},
            ComparisonOperator.GE: {"gte": start},
            ComparisonOperator.LT: {"lt": start},
            ComparisonOperator.LE: {"lt": end},
        }
        if operator in bounds:
            return {"range": {self.name: bounds[operator]}}
        return within if operator is ComparisonOperator.EQ else match_none(within)


def _year(value: FilterLiteral) -> tuple[int, int]:
    """Return the start of a year and that of the next."""
    if value.type is not LiteralType.NUMBER or not value.text.isdecimal() or not 1 <= int(value.text) < dt.MAXYEAR:
        raise UnsupportedComparison(f"is compared with a whole number in {FieldFunction.YEAR}")
    year = int(value.text)
    return _start_of_day(dt.date(year, 1, 1)), _start_of_day(dt.date(year + 1, 1, 1))


def _day(value: FilterLiteral) -> tuple[int, int]:
    """Return the start of a day and that of the next."""
    start = _parse_day(value.text if value.type is LiteralType.DATE else "")
    return start, start + _MILLISECONDS_PER_DAY


PERIODS = {FieldFunction.YEAR: _year, FieldFunction.DATE: _day}


def _start_of_day(day: dt.date) -> int:
    return (day - _EPOCH.date()).days * _MILLISECONDS_PER_DAY


def _parse_day(text: str) -> int:
    try:
        return _start_of_day(dt.date.fromisoformat(text))
    except ValueError:
        raise UnsupportedComparison(f"is compared with {LiteralType.DATE}; {text[:40]!r} is not valid") from None


@dataclass(frozen=True)
class TimestampMatcher(MomentMatcher):
    """A timestamp in milliseconds since 1970."""

    literal_type = LiteralType.TIMESTAMP

    def parse_number(self, text: str) -> Decimal:
        """Return the milliseconds of a timestamp, with fractions for finer precision."""
        if text == NOW:
            return Decimal(time.time_ns() // 1_000_000)
        if (milliseconds := _parse_timestamp(text)) is None:
            raise UnsupportedComparison(
                f"is compared with {self.literal_type}; {text[:40]!r} is not valid (Z or an offset is required)"
            )
        return milliseconds


# An entity set may have several resources, for each of which a filter is built; it has fewer values than this.
@lru_cache(512)
def _parse_timestamp(text: str) -> Decimal | None:
    """Return the milliseconds since 1970 of a timestamp, None if it is not valid."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        at = dt.datetime.fromisoformat(match[1] + match[3].upper()) if match else None
        passed = at - _EPOCH if at else None
    except (ValueError, OverflowError):
        passed = None
    if match is None or passed is None:
        return None
    return (passed.days * 86_400 + passed.seconds) * 1000 + Decimal(match[2] or 0) * 1000


@dataclass(frozen=True)
class OptionalIntegerMatcher(IntegerMatcher):
    """A whole number that a record may lack."""

    def match_missing(self) -> Clause:
        """Match records without the number."""
        return lacks_field(self.name)


@dataclass(frozen=True)
class OptionalTimestampMatcher(TimestampMatcher, OptionalIntegerMatcher):
    """A point in time that a record may lack."""


@dataclass(frozen=True)
class DecimalMatcher(RangeMatcher):
    """A decimal number, indexed as 64-bit floating point; a record may lack it."""

    name: str
    literal_type = LiteralType.NUMBER

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with one of these numbers."""
        finite = [number for number in map(float, values) if isfinite(number)]
        return terms(self.name, finite) if finite else MATCH_NONE

    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        """Match numbers beyond a bound."""
        limit = max(-float_info.max, min(float_info.max, float(value)))
        return {"range": {self.name: {RANGE_OPERATORS[operator]: limit}}}

    def match_missing(self) -> Clause:
        """Match records without the number."""
        return lacks_field(self.name)


@dataclass(frozen=True)
class DateMatcher(MomentMatcher, OptionalIntegerMatcher):
    """A date, indexed as the milliseconds of its start."""

    literal_type = LiteralType.DATE

    def parse_number(self, text: str) -> Decimal:
        """Return the milliseconds of the start of a day."""
        return Decimal(_parse_day(text))
