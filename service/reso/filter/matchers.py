"""Matchers: from a comparison in a filter to an Elasticsearch clause, one for each way of indexing a property.

Comparisons with null follow OData: nothing is greater or less than null, and null equals only null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from mappings.normalization import alphanumeric_key
from service.reso.filter.expression import ComparisonOperator, FilterLiteral, LiteralType
from service.search.query import Clause, lacks_field, match_any, match_none, spellings, term, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping, Sequence

MATCH_ALL: Clause = {"match_all": {}}
MATCH_NONE: Clause = {"match_none": {}}
RANGE_OPERATORS = {
    ComparisonOperator.GT: "gt",
    ComparisonOperator.GE: "gte",
    ComparisonOperator.LT: "lt",
    ComparisonOperator.LE: "lte",
}


# Characters of a lookup value; names have up to 50.
_MAX_LOOKUP_LENGTH = 128


class UnsupportedComparison(Exception):
    """A value or an operator that a property does not support; the message names what it supports."""


def _lookup_keys(values: Sequence[str], names: Collection[str], known: Container[str]) -> set[str]:
    """Return the normal forms of lookup values, without case and punctuation.

    `known` are those of the valid names; raise UnsupportedComparison for any other value.
    """
    # One by one and each once: normalization takes 0.1 µs per character.
    keys = {value: alphanumeric_key(value) if len(value) <= _MAX_LOOKUP_LENGTH else "" for value in {*values}}
    if unknown := [value for value, key in keys.items() if key not in known]:
        raise UnsupportedComparison(f"has no value {unknown[0][:40]!r}; it is one of {', '.join(names)}")
    return {*keys.values()}


class Matcher(ABC):
    """Builds the clauses for comparisons of one property."""

    @abstractmethod
    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match any of the values, which may include null; raise UnsupportedComparison."""

    @abstractmethod
    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match values greater or less than a value; raise UnsupportedComparison."""


class EqualityMatcher(Matcher):
    """A property that supports equality alone."""

    literal_type: ClassVar[LiteralType] = LiteralType.TEXT

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match any of the values, which may include null; raise UnsupportedComparison."""
        given = [value for value in values if value.type is not LiteralType.NULL]
        if any(value.type is not self.literal_type for value in given):
            raise UnsupportedComparison(f"is compared with {self.literal_type}")
        clauses = [self.match_missing()] if len(given) < len(values) else []
        return match_any(*clauses, *([self.match_values([value.text for value in given])] if given else []))

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:  # noqa: ARG002 - there is no order
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison("is compared by eq, ne and in")

    @abstractmethod
    def match_values(self, values: Sequence[str]) -> Clause:
        """Match any of the values, none of which is null."""

    def match_missing(self) -> Clause:
        """Match records without a value."""
        return MATCH_NONE


class RangeMatcher(EqualityMatcher):
    """A property that supports equality and order."""

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match values greater or less than a value; raise UnsupportedComparison."""
        if value.type is LiteralType.NULL:
            return MATCH_NONE
        if value.type is not self.literal_type:
            raise UnsupportedComparison(f"is compared with {self.literal_type}")
        return self.match_range(operator, value.text)

    @abstractmethod
    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        """Match values beyond a bound."""


@dataclass(frozen=True)
class MissingPropertyMatcher(Matcher):
    """A property that a resource lacks: null in all of its records."""

    like: Matcher

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match all records if null is among the values, else none."""
        self.like.match_any(values)
        return MATCH_ALL if any(value.type is LiteralType.NULL for value in values) else MATCH_NONE

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match nothing."""
        self.like.match_comparison(operator, value)
        return MATCH_NONE


@dataclass(frozen=True)
class IdentifierMatcher(RangeMatcher):
    """The key: equality by `_id`, order by the doc values of `id`."""

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with these keys, ignoring empty ones, which Elasticsearch refuses."""
        given = [name for value in values if value for name in spellings(value)]
        return terms("_id", given) if given else MATCH_NONE

    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        """Match keys beyond a bound, by code point."""
        return {"range": {"id": {RANGE_OPERATORS[operator]: value}}}


@dataclass(frozen=True)
class KeywordMatcher(EqualityMatcher):
    """A text that is indexed verbatim."""

    name: str

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with one of these texts."""
        return term(self.name, values[0]) if len(values) == 1 else terms(self.name, values)

    def match_missing(self) -> Clause:
        """Match records without the text."""
        return lacks_field(self.name)


@dataclass(frozen=True)
class BooleanMatcher(EqualityMatcher):
    """An indexed boolean; a record may lack it."""

    name: str
    literal_type = LiteralType.BOOLEAN

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with one of these values."""
        return terms(self.name, [value.lower() == "true" for value in values])

    def match_missing(self) -> Clause:
        """Match records without a value."""
        return lacks_field(self.name)


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
