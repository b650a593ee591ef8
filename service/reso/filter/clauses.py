"""From a filter expression to an Elasticsearch clause, by matchers: one for each way of indexing a property.

Comparisons with null follow OData: nothing is greater or less than null, and null equals only null.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from service.errors import InvalidRequest
from service.reso.filter.expression import (
    And,
    AnyChild,
    AnyElement,
    ComparisonOperator,
    ElementSet,
    FieldComparison,
    FieldCondition,
    FieldFunction,
    FilterExpression,
    FilterLiteral,
    FunctionComparison,
    HasValue,
    InList,
    Leaf,
    LiteralType,
    Negation,
    Or,
    TextAlternatives,
    TextCondition,
    TextTest,
    fold,
)
from service.reso.protocol import FILTER, OptionNotImplemented
from service.search.query import (
    HIDDEN_ADDRESS,
    Clause,
    lacks_field,
    match_any,
    match_none,
    spellings,
    term,
    terms,
    with_shown_address,
)

# A longer text takes Elasticsearch too long to compile.
_MAX_PATTERN_LENGTH = 100
# Of a regular expression, in UTF-16; Elasticsearch refuses longer ones (`index.max_regex_length`).
_MAX_REGEXP_LENGTH = 1_000
# What has a meaning in a regular expression of Lucene, and more.
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LETTER = re.compile(r"[A-Za-z]")
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


TextTested = TextCondition | FunctionComparison


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

    def match_texts(self, tests: Sequence[TextTested]) -> Clause:
        """Match texts that pass at least one test; raise UnsupportedComparison or UnansweredFunction."""
        raise UnansweredFunction(tests[0].test if isinstance(tests[0], TextCondition) else tests[0].function)

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

    def match_children(self, expression: FilterExpression) -> Clause:  # noqa: ARG002 - only navigation properties lead to some
        """Match records with a child that matches; raise UnsupportedComparison or ApiError."""
        raise UnsupportedComparison("has no entities: within any and all, write the variable alone")


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
        self.like.match_comparison(operator, value)
        return MATCH_NONE

    def match_texts(self, tests: Sequence[TextTested]) -> Clause:
        self.like.match_texts(tests)
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

    def match_texts(self, tests: Sequence[TextTested]) -> Clause:
        """Match texts that pass at least one test; raise UnsupportedComparison or UnansweredFunction.

        Tests of a kind are one regular expression: Elasticsearch compares each text with all of them at once.
        """
        patterns: dict[tuple[str, str], dict[str, None]] = {}
        for test in tests:
            around, text = _tested(test)
            if test.function is None:
                patterns.setdefault(around, {})[_escaped(text)] = None
            elif _is_folded(text, test.function):
                # Letters a to z alone: `case_insensitive` adds others, and without an index it runs for each record.
                of_each_case = _LETTER.sub(lambda letter: f"[{letter[0].lower()}{letter[0].upper()}]", _escaped(text))
                patterns.setdefault(around, {})[of_each_case] = None
        clauses: list[Clause] = [
            {"regexp": {self.name: {"value": value, "flags": "NONE"}}}
            for (before, after), texts in patterns.items()
            for value in _regexps(before, [*texts], after)
        ]
        return match_any(*clauses) if clauses else MATCH_NONE

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match texts by `tolower` or `toupper`; raise UnsupportedComparison or UnansweredFunction."""
        if operator not in {ComparisonOperator.EQ, ComparisonOperator.NE}:
            raise UnansweredFunction(f"{function} with {operator}")
        same = self.match_texts((FunctionComparison(function, self.name, ComparisonOperator.EQ, value),))
        return same if operator is ComparisonOperator.EQ else _negated(same)


# Around the text in a regular expression; it is empty on both sides for equality.
_AROUND = {TextTest.CONTAINS: (".*", ".*"), TextTest.STARTS_WITH: ("", ".*"), TextTest.ENDS_WITH: (".*", "")}


def _tested(test: TextTested) -> tuple[tuple[str, str], str]:
    """Return what is around the text of a test, and the text; raise UnsupportedComparison."""
    if isinstance(test, FunctionComparison):
        if test.value.type is not LiteralType.TEXT:
            raise UnsupportedComparison(f"is compared with {LiteralType.TEXT} in {test.function}")
        around, text = ("", ""), test.value.text
    else:
        around, text = _AROUND[test.test], test.text
    if len(text) > _MAX_PATTERN_LENGTH:
        raise UnsupportedComparison(f"is tested for at most {_MAX_PATTERN_LENGTH} characters")
    return around, text


def _escaped(text: str) -> str:
    return _PUNCTUATION.sub(r"\\\g<0>", text)


def _regexps(before: str, texts: Sequence[str], after: str) -> Iterator[str]:
    """Yield regular expressions for alternatives, as few as their length allows."""
    room = _MAX_REGEXP_LENGTH - len(f"{before}(){after}")
    chosen, length = list[str](), 0
    for text in texts:
        added = len(text.encode("utf-16-le", "surrogatepass")) // 2
        if chosen and length + added > room:
            yield f"{before}({'|'.join(chosen)}){after}"
            chosen, length = [], 0
        chosen.append(text)
        length += added + len("|")
    yield f"{before}({'|'.join(chosen)}){after}"


@dataclass(frozen=True)
class BooleanMatcher(EqualityMatcher):
    """An indexed boolean; a record may lack it."""

    name: str
    literal_type = LiteralType.BOOLEAN

    def match_values(self, values: Sequence[str]) -> Clause:
        return terms(self.name, [value.lower() == "true" for value in values])

    def match_missing(self) -> Clause:
        """Match records without a value."""
        return lacks_field(self.name)


_COLLECTION = "is a collection: write any(x:x eq 'value') or all(x:x eq 'value')"


@dataclass(frozen=True)
class CollectionMatcher(Matcher):
    """A collection of texts, which is never null."""

    name: str

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:  # noqa: ARG002 - it has no single value
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(_COLLECTION)

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:  # noqa: ARG002 - the same
        """Raise UnsupportedComparison."""
        raise UnsupportedComparison(_COLLECTION)

    def match_has(self, value: FilterLiteral) -> Clause:
        if value.type is not LiteralType.TEXT:
            raise UnsupportedComparison(f"has {LiteralType.TEXT}")
        return self.match_elements(ElementSet(frozenset({value.text})))

    def match_elements(self, elements: ElementSet) -> Clause:
        texts = sorted(elements.texts, key=str.encode)
        if not elements.is_complement:
            return terms(self.name, texts) if texts else MATCH_NONE
        if not texts:
            return {"exists": {"field": self.name}}
        # Every other text is before the first, after the last, or between two.
        bounds = [{"lt": texts[0]}, {"gt": texts[-1]}, *({"gt": low, "lt": high} for low, high in pairwise(texts))]
        clauses: list[Clause] = [{"range": {self.name: bound}} for bound in bounds]
        return match_any(*clauses)


@dataclass(frozen=True)
class ShownAddressMatcher(Matcher):
    """A member of the address, found by `found` where it is shown."""

    found: Matcher

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match any of the values, which may include null; raise UnsupportedComparison."""
        shown = with_shown_address(self.found.match_any(values))
        has_null = any(value.type is LiteralType.NULL for value in values)
        return match_any(shown, HIDDEN_ADDRESS) if has_null else shown

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match values greater or less than a value; raise UnsupportedComparison."""
        return with_shown_address(self.found.match_comparison(operator, value))

    def match_texts(self, tests: Sequence[TextTested]) -> Clause:
        """Match texts that pass at least one test; raise UnsupportedComparison or UnansweredFunction."""
        return with_shown_address(self.found.match_texts(tests))

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match a function of the value compared with a literal; null differs from every literal."""
        found = self.found.match_function(function, operator, value)
        return match_any(found, HIDDEN_ADDRESS) if operator is ComparisonOperator.NE else with_shown_address(found)


# From a property name to its matcher; raises InvalidRequest for a property that cannot be filtered.
MatcherLookup = Callable[[str], Matcher]


def build_clause(expression: FilterExpression, matcher_for: MatcherLookup) -> Clause:
    """Return the clause for an expression; raise InvalidRequest for an unsupported comparison.

    A filter that no record of the resource matches is `MATCH_NONE`, which needs no search.
    """

    def of_leaf(leaf: Leaf) -> Clause:
        if isinstance(leaf, Negation):
            return _negated(_comparison_clause(leaf.condition, matcher_for))
        return _comparison_clause(leaf, matcher_for)

    return fold(_with_merged_alternatives(expression), of_leaf, all_of, any_of)


def all_of(parts: Iterable[Clause]) -> Clause:
    clauses = list(parts)
    return MATCH_NONE if MATCH_NONE in clauses else {"bool": {"filter": clauses}}


def any_of(parts: Iterable[Clause]) -> Clause:
    possible = [clause for clause in parts if clause != MATCH_NONE]
    return match_any(*possible) if possible else MATCH_NONE


def _negated(clause: Clause) -> Clause:
    if clause in (MATCH_ALL, MATCH_NONE):
        return MATCH_NONE if clause == MATCH_ALL else MATCH_ALL
    return match_none(clause)


def _comparison_clause(condition: FieldCondition, matcher_for: MatcherLookup) -> Clause:
    with refused(condition.field):
        return _matched(condition, matcher_for(condition.field))


@contextmanager
def refused(field: str) -> Iterator[None]:
    """Refuse a request that compares a property in a way that it does not support."""
    try:
        yield
    except UnsupportedComparison as fault:
        raise InvalidRequest.of(FILTER, f"{field} {fault}.") from None
    except UnansweredFunction as fault:
        raise OptionNotImplemented(FILTER, f"{fault} for {field}") from None


def _matched(condition: FieldCondition, matcher: Matcher) -> Clause:
    match condition:
        case InList() | FieldComparison():
            return _compared(condition, matcher)
        case HasValue(_, value):
            return matcher.match_has(value)
        case AnyElement(_, elements):
            return matcher.match_elements(elements)
        case AnyChild(_, expression):
            return matcher.match_children(expression)
        case TextAlternatives() | TextCondition():
            return matcher.match_texts(condition.tests if isinstance(condition, TextAlternatives) else (condition,))
        case FunctionComparison(function, _, operator, value):
            return matcher.match_function(function, operator, value)


def _compared(condition: FieldComparison | InList, matcher: Matcher) -> Clause:
    match condition:
        case InList(_, values):
            return matcher.match_any(values)
        case FieldComparison(_, ComparisonOperator.EQ, value):
            return matcher.match_any((value,))
        case FieldComparison(_, ComparisonOperator.NE, value):
            return _negated(matcher.match_any((value,)))
        case FieldComparison(_, operator, value):
            return matcher.match_comparison(operator, value)


def _with_merged_alternatives(expression: FilterExpression) -> FilterExpression:
    """Merge equalities of a property that are alternatives into one list, and tests of a text into one condition.

    Elasticsearch looks up the values of a list at once, and reads each text once for all tests.
    """

    def any_of(parts: Iterable[FilterExpression]) -> FilterExpression:
        equal: dict[str, list[FilterLiteral]] = {}
        tests: dict[str, list[TextTested]] = {}
        others: list[FilterExpression] = []
        for part in parts:
            match part:
                case FieldComparison(name, ComparisonOperator.EQ, value):
                    equal.setdefault(name, []).append(value)
                case InList(name, values):
                    equal.setdefault(name, []).extend(values)
                case TextCondition(name) | FunctionComparison(
                    FieldFunction.TO_LOWER | FieldFunction.TO_UPPER, name, ComparisonOperator.EQ
                ):
                    tests.setdefault(name, []).append(part)
                case _:
                    others.append(part)
        lists = (InList(name, tuple(values)) for name, values in equal.items())
        return Or((*lists, *(TextAlternatives(name, tuple(given)) for name, given in tests.items()), *others))

    return fold(expression, lambda leaf: leaf, lambda parts: And(tuple(parts)), any_of)
