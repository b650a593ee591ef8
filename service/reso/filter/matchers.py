"""Matchers: from a comparison in a filter to an Elasticsearch clause, one for each way of indexing a property.

Comparisons with null follow OData: nothing is greater or less than null, and null equals only null.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from service.reso.filter.expression import (
    ComparisonOperator,
    ElementSet,
    FieldFunction,
    FilterLiteral,
    LiteralType,
    TextCondition,
    TextTest,
)
from service.search.query import Clause, lacks_field, match_any, match_none, spellings, term, term_in_any_case, terms

# A longer pattern takes Elasticsearch too long to compile.
_MAX_PATTERN_LENGTH = 100
_WILDCARDS = re.compile(r"[*?\\]")
MATCH_ALL: Clause = {"match_all": {}}
MATCH_NONE: Clause = {"match_none": {}}
RANGE_OPERATORS = {
    ComparisonOperator.GT: "gt",
    ComparisonOperator.GE: "gte",
    ComparisonOperator.LT: "lt",
    ComparisonOperator.LE: "lte",
}


class UnsupportedComparison(Exception):
    """A value or an operator that a property does not support; the message names what it supports."""


class UnansweredFunction(Exception):
    """A function that the index of a property cannot answer."""


def _is_folded(text: str, function: FieldFunction) -> bool:
    """Whether a text equals itself after `tolower` or `toupper`: otherwise no value does.

    Raise UnansweredFunction for letters beyond ASCII, whose case Elasticsearch does not know.
    """
    if function not in {FieldFunction.TO_LOWER, FieldFunction.TO_UPPER}:
        raise UnansweredFunction(function)
    if not text.isascii():
        raise UnansweredFunction(f"{function} of letters other than a to z")
    return text == (text.lower() if function is FieldFunction.TO_LOWER else text.upper())


class Matcher(ABC):
    """Builds the clauses for comparisons of one property."""

    @abstractmethod
    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match any of the values, which may include null; raise UnsupportedComparison."""

    @abstractmethod
    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match values greater or less than a value; raise UnsupportedComparison."""

    def match_has(self, value: FilterLiteral) -> Clause:
        """Match a lookup that is, or a collection that contains, a value; raise UnsupportedComparison."""
        return self.match_any((value,))

    def match_text(self, condition: TextCondition) -> Clause:
        """Match texts that pass a test; raise UnansweredFunction."""
        raise UnansweredFunction(condition.test)

    def match_function(
        self,
        function: FieldFunction,
        operator: ComparisonOperator,  # noqa: ARG002 - matchers that answer functions read both
        value: FilterLiteral,  # noqa: ARG002
    ) -> Clause:
        """Match a function of the value compared with a literal; raise UnsupportedComparison or UnansweredFunction."""
        raise UnansweredFunction(function)

    def match_elements(self, elements: ElementSet) -> Clause:  # noqa: ARG002 - only collections have elements
        """Match collections with an element of a set; raise UnsupportedComparison."""
        raise UnsupportedComparison("has one value, so any and all cannot be used")


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

    def match_text(self, condition: TextCondition) -> Clause:
        """Match nothing."""
        self.like.match_text(condition)
        return MATCH_NONE

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match nothing; all records if the value must differ."""
        self.like.match_function(function, operator, value)
        return MATCH_ALL if operator is ComparisonOperator.NE else MATCH_NONE

    def match_elements(self, elements: ElementSet) -> Clause:
        """Match nothing: there is no element."""
        self.like.match_elements(elements)
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

    def match_text(self, condition: TextCondition) -> Clause:
        """Match texts that contain, start or end with a text; raise UnsupportedComparison or UnansweredFunction."""
        if len(condition.text) > _MAX_PATTERN_LENGTH:
            raise UnsupportedComparison(f"is tested for at most {_MAX_PATTERN_LENGTH} characters")
        if condition.function is None:
            return self._pattern(condition)
        if not _is_folded(condition.text, condition.function):
            return MATCH_NONE
        return self._pattern(condition, is_folded=True)

    def _pattern(self, condition: TextCondition, *, is_folded: bool = False) -> Clause:
        text = _WILDCARDS.sub(r"\\\g<0>", condition.text)
        before = "" if condition.test is TextTest.STARTS_WITH else "*"
        after = "" if condition.test is TextTest.ENDS_WITH else "*"
        return {"wildcard": {self.name: {"value": f"{before}{text}{after}", "case_insensitive": is_folded}}}

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match texts by `tolower` or `toupper`; raise UnsupportedComparison or UnansweredFunction."""
        if operator not in {ComparisonOperator.EQ, ComparisonOperator.NE}:
            raise UnansweredFunction(f"{function} with {operator}")
        if value.type is not LiteralType.TEXT:
            raise UnsupportedComparison(f"is compared with {LiteralType.TEXT} in {function}")
        same = term_in_any_case(self.name, value.text) if _is_folded(value.text, function) else MATCH_NONE
        return same if operator is ComparisonOperator.EQ else match_none(same)


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
