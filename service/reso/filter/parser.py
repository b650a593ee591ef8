"""A recursive descent parser of `$filter`, for the supported part of the OData grammar.

It takes linear time, and limits nesting and the numbers of comparisons and values. Field names are checked later,
against the entity set.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import and_, or_
from typing import NamedTuple, NoReturn

from service.reso.filter.expression import (
    NOW,
    And,
    AnyChild,
    AnyElement,
    ComparisonOperator,
    ElementSet,
    FieldComparison,
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
    TextCondition,
    TextTest,
    conditions,
    fold,
    negated,
)
from service.reso.protocol import FILTER, OptionNotImplemented

_TOKEN_REGEX = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[ +-][0-9]{2}:[0-9]{2})?)"
    r"|(?P<other>[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}|(?:duration|binary|geography|geometry)'[^']*')"
    r"|(?P<lookup>[A-Z_][A-Z0-9_]*(?:\.[A-Z_][A-Z0-9_]*)+'(?:[^']|'')*')"
    r"|(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]{1,3})?)"
    r"|(?P<word>[A-Z_][A-Z0-9_]*(?:\.[A-Z_][A-Z0-9_]*)*)"
    r"|(?P<alias>[@$][A-Z_]*)"
    r"|(?P<symbol>[(),/:*-])",
    re.ASCII | re.IGNORECASE,
)


class MalformedFilter(Exception):
    """A filter with a syntax error; the message says where and why."""


class FilterToken(NamedTuple):
    """A token of a filter, and its position."""

    kind: str
    text: str
    offset: int  # characters before it

    @property
    def word(self) -> str:
        """The text of a word in lower case, empty for other tokens."""
        return self.text.lower() if self.kind == "word" else ""


def tokenize(text: str) -> Iterator[FilterToken]:
    """Yield the tokens of a filter, and one for its end; raise MalformedFilter."""
    at = 0
    while at < len(text):
        match = _TOKEN_REGEX.match(text, at)
        if match is None or match.lastgroup is None:
            raise MalformedFilter(expected_message(at, "a valid token", text[at]))
        if match.lastgroup != "space":
            yield FilterToken(match.lastgroup, match[0], at)
        at = match.end()
    yield FilterToken("end", "the end", at)


def expected_message(at: int, expected: str, found: str) -> str:
    """Return the error message for an unexpected token."""
    return f"at character {at + 1} there is {found[:40]!r} instead of {expected}."


# A comparison takes up to 40 µs of processor time (in a filter of events, which search five resources), a value 8 µs.
MAX_COMPARISONS = 60
MAX_VALUES = 500

_LITERAL_TYPES = {
    "timestamp": LiteralType.TIMESTAMP,
    "date": LiteralType.DATE,
    "number": LiteralType.NUMBER,
    "other": LiteralType.OTHER,
}
KEYWORD_LITERALS = {"true": LiteralType.BOOLEAN, "false": LiteralType.BOOLEAN, "null": LiteralType.NULL}
_NOW = "now"


class TokenReader:
    """Reads from left to right with one token of lookahead, and limits the numbers of comparisons and values."""

    def __init__(self, text: str) -> None:
        """Start at the first token; raise MalformedFilter."""
        self._tokens = tokenize(text)
        self.lookahead = next(self._tokens)
        self.variable = ""  # of the `any` or `all` that is being read
        self._comparisons = 0
        self._values = 0

    def advance(self) -> FilterToken:
        token, self.lookahead = self.lookahead, next(self._tokens)
        return token

    def accept_word(self, *words: str) -> str:
        """Return the word that follows and read on if it is one of these, else an empty text."""
        word = self.lookahead.word if self.lookahead.word in words else ""
        if word:
            self.advance()
        return word

    def accept_symbol(self, symbol: str) -> bool:
        is_match = self.lookahead.text == symbol
        if is_match:
            self.advance()
        return is_match

    def expect_symbol(self, symbol: str) -> None:
        """Read a symbol; raise MalformedFilter."""
        if not self.accept_symbol(symbol):
            self.fail(symbol)

    def expect_name(self, expected: str) -> str:
        """Read a name; raise MalformedFilter."""
        if self.lookahead.kind != "word":
            self.fail(expected)
        return self.advance().text

    def count_comparison(self) -> None:
        """Raise MalformedFilter for one comparison too many."""
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise MalformedFilter(f"has more than {MAX_COMPARISONS} comparisons; give many values with in (…).")

    def read_literal(self) -> FilterLiteral:
        """Read a literal; raise MalformedFilter, or OptionNotImplemented for aliases and negated values."""
        token = self.lookahead
        if token.kind == "alias":
            raise OptionNotImplemented(FILTER, f"{token.text[:40]}, a parameter alias or a system value,")
        if token.text == "-":
            raise OptionNotImplemented(FILTER, "the operator -")
        if token.kind in {"text", "lookup"}:
            self.advance()
            return FilterLiteral(LiteralType.TEXT, token.text.partition("'")[2][:-1].replace("''", "'"))
        if token.word == _NOW:
            self.advance()
            return self.finish_now()
        literal_type = _LITERAL_TYPES.get(token.kind) or KEYWORD_LITERALS.get(token.word)
        if literal_type is None:
            self.fail("a value")
        self.advance()
        # A `+` that is not encoded in a URL arrives as a space.
        return FilterLiteral(literal_type, token.text.replace(" ", "+"))

    def finish_now(self) -> FilterLiteral:
        """Read the parentheses of `now()`."""
        self.expect_symbol("(")
        self.expect_symbol(")")
        return FilterLiteral(LiteralType.TIMESTAMP, NOW)

    def read_list(self) -> Iterator[FilterLiteral]:
        """Read literals in parentheses; raise as `read_literal`."""
        self.expect_symbol("(")
        yield self._read_listed()
        while self.accept_symbol(","):
            yield self._read_listed()
        self.expect_symbol(")")

    def _read_listed(self) -> FilterLiteral:
        self._values += 1
        if self._values > MAX_VALUES:
            raise MalformedFilter(f"has more than {MAX_VALUES} values in lists; send several requests.")
        return self.read_literal()

    def fail(self, expected: str) -> NoReturn:
        """Raise MalformedFilter."""
        raise MalformedFilter(expected_message(self.lookahead.offset, expected, self.lookahead.text))


_EVERYTHING = ElementSet(frozenset(), is_complement=True)
# The name of an element itself, which is a text.
_ELEMENT = ""


def parse_elements(reader: TokenReader, field: str, *, is_all: bool) -> FilterExpression:
    """Parse what follows `any` or `all`; `any()` is true of a collection that is not empty."""
    reader.expect_symbol("(")
    if not is_all and reader.accept_symbol(")"):
        return AnyElement(field, _EVERYTHING)
    reader.variable = reader.expect_name("a variable")
    reader.expect_symbol(":")
    inner = _FilterParser(reader).parse_or()
    reader.variable = ""
    reader.expect_symbol(")")
    if is_all:
        return Negation(_any_of_elements(field, negated(inner)))
    return _any_of_elements(field, inner)


def _any_of_elements(field: str, expression: FilterExpression) -> AnyElement | AnyChild:
    if any(condition.field != _ELEMENT for condition in conditions(expression)):
        return AnyChild(field, expression)
    everything: Callable[[ElementSet, ElementSet], ElementSet] = and_
    return AnyElement(field, fold(expression, _elements, partial(reduce, everything), partial(reduce, or_)))


def _elements(leaf: Leaf) -> ElementSet:
    """Return the elements for which a condition holds."""
    if isinstance(leaf, Negation):
        return ~_elements(leaf.condition)
    match leaf:
        case InList(_, given):
            is_complement = False
        case FieldComparison(_, ComparisonOperator.EQ | ComparisonOperator.NE as operator, value):
            given, is_complement = (value,), operator is ComparisonOperator.NE
        case FieldComparison(_, operator):
            raise OptionNotImplemented(FILTER, f"{operator} within any or all")
        case _:
            raise OptionNotImplemented(FILTER, "has within any or all")
    texts = [value.text for value in given if value.type is LiteralType.TEXT]
    if len(texts) + sum(value.type is LiteralType.NULL for value in given) < len(given):
        raise MalformedFilter(f"compares elements with something other than {LiteralType.TEXT}.")
    return ElementSet(frozenset(texts), is_complement)


_LOGICAL_OPERATORS = frozenset({"and", "or", "not"})
_UNIMPLEMENTED_OPERATORS = frozenset({"add", "sub", "mul", "div", "divby", "mod"})
_OPERATORS = frozenset(ComparisonOperator)
_TEXT_TESTS = frozenset(TextTest)
_FIELD_FUNCTIONS = frozenset(FieldFunction)
_FOLDING = (FieldFunction.TO_LOWER, FieldFunction.TO_UPPER)
# What to do instead of a function that no index answers.
_BY_RANGE = "Compare the property with a range of dates or timestamps, by ge and lt."
_BY_TEXT = "Test the property by startswith, endswith, contains or eq."
_BY_NUMBER = "Compare the property with a range of numbers, by ge and lt."
_ADVICE_OF_OTHERS = "Filter by properties without it, and compute the rest from the records."
_ADVICE = {
    **dict.fromkeys(("month", "day", "hour", "minute", "second", "fractionalseconds", "time"), _BY_RANGE),
    **dict.fromkeys(("concat", "indexof", "length", "substring", "substringof", "trim", "matchespattern"), _BY_TEXT),
    **dict.fromkeys(("ceiling", "floor", "round"), _BY_NUMBER),
}
_QUANTIFIERS = frozenset({"any", "all"})


class _FieldOperand(NamedTuple):
    """A field, or a function of one."""

    name: str
    function: FieldFunction | None = None


def parse_comparison(reader: TokenReader, *, is_negated: bool = False) -> FilterExpression:
    """Parse one condition; with `is_negated`, `not` precedes it without parentheses, so it must be a function."""
    reader.count_comparison()
    left = _parse_operand(reader)
    if isinstance(left, FilterExpression):
        return _against_truth(reader, left)
    if is_negated:
        reader.fail("a parenthesis: write not (…)")
    word = reader.lookahead.word
    if isinstance(left, _FieldOperand) and not left.function:
        if reader.accept_word("in"):
            return InList(left.name, tuple(reader.read_list()))
        if reader.accept_word("has"):
            return HasValue(left.name, reader.read_literal())
    _refuse_unimplemented(word)
    if word not in _OPERATORS:
        reader.fail("eq, ne, gt, ge, lt, le, in or has")
    reader.advance()
    return _build_comparison(reader, left, ComparisonOperator(word), _parse_operand(reader))


def _against_truth(reader: TokenReader, condition: FilterExpression) -> FilterExpression:
    """Return a condition, which some clients compare with true or false."""
    if not isinstance(condition, TextCondition) or not (operator := reader.accept_word("eq", "ne")):
        return condition
    truth = reader.read_literal()
    if truth.type is not LiteralType.BOOLEAN:
        raise MalformedFilter(f"compares {condition.test} with something other than {LiteralType.BOOLEAN}.")
    return condition if (truth.text.lower() == "true") is (operator == "eq") else Negation(condition)


def _build_comparison(
    reader: TokenReader,
    left: _FieldOperand | FilterLiteral,
    operator: ComparisonOperator,
    right: _FieldOperand | FilterLiteral | FilterExpression,
) -> FilterExpression:
    _refuse_unimplemented(reader.lookahead.word)
    if isinstance(right, FilterExpression):
        raise OptionNotImplemented(FILTER, "a comparison with a condition")
    if isinstance(left, FilterLiteral):
        left, operator, right = right, operator.mirrored, left
    if isinstance(right, _FieldOperand):
        raise OptionNotImplemented(FILTER, "a comparison of two fields")
    if isinstance(left, FilterLiteral):
        raise MalformedFilter("compares two values; name a field on one side.")
    if left.function:
        return FunctionComparison(left.function, left.name, operator, right)
    return FieldComparison(left.name, operator, right)


def _refuse_unimplemented(word: str) -> None:
    if word in _UNIMPLEMENTED_OPERATORS:
        raise OptionNotImplemented(FILTER, f"the operator {word}")


def _parse_operand(reader: TokenReader) -> _FieldOperand | FilterLiteral | FilterExpression:
    token = reader.lookahead
    if token.kind != "word" or token.word in KEYWORD_LITERALS:
        return reader.read_literal()
    if token.word in _LOGICAL_OPERATORS:
        reader.fail("a field or a value")
    name = reader.advance().text
    if reader.variable and name.lower() != _NOW:
        return _FieldOperand(_parse_member(reader, name))
    if reader.lookahead.text == "(":
        return _parse_function(reader, name)
    if reader.accept_symbol("/"):
        return _parse_path(reader, name)
    return _FieldOperand(name)


def _parse_member(reader: TokenReader, name: str) -> str:
    """Parse a property of the variable, after its name; return its name, empty for the element itself."""
    if reader.lookahead.text == "(":
        raise OptionNotImplemented(FILTER, f"{name[:40]}(… within any or all")
    if name != reader.variable:
        raise MalformedFilter(f"compares {name[:40]!r} within any or all instead of {reader.variable[:40]!r}.")
    if not reader.accept_symbol("/"):
        return _ELEMENT
    member = reader.expect_name("a property")
    if reader.lookahead.text in {"/", "("}:
        raise OptionNotImplemented(FILTER, f"{name[:40]}/{member[:40]}{reader.lookahead.text}… within any or all")
    return member


def _parse_function(reader: TokenReader, name: str) -> _FieldOperand | FilterLiteral | FilterExpression:
    function = name.lower()
    if function == "now":
        return reader.finish_now()
    if function not in _FIELD_FUNCTIONS | _TEXT_TESTS:
        raise OptionNotImplemented(FILTER, f"the function {name[:40]}", _ADVICE.get(function, _ADVICE_OF_OTHERS))
    reader.expect_symbol("(")
    operand = _parse_argument(reader, has_functions=function in _TEXT_TESTS)
    if function in _TEXT_TESTS:
        reader.expect_symbol(",")
        text = reader.read_literal()
        if text.type is not LiteralType.TEXT:
            raise MalformedFilter(f"{function} tests for {LiteralType.TEXT}.")
        reader.expect_symbol(")")
        return TextCondition(operand.name, TextTest(function), text.text, operand.function)
    reader.expect_symbol(")")
    return _FieldOperand(operand.name, FieldFunction(function))


def _parse_argument(reader: TokenReader, *, has_functions: bool) -> _FieldOperand:
    """Parse the field that a function reads; in tests of a text it may be in tolower or toupper."""
    name = reader.expect_name("a field")
    if reader.lookahead.text == "(" and has_functions and name.lower() in _FOLDING:
        reader.advance()
        inner = reader.expect_name("a field")
        reader.expect_symbol(")")
        return _FieldOperand(inner, FieldFunction(name.lower()))
    if reader.lookahead.text in {"(", "/"}:
        raise OptionNotImplemented(FILTER, f"{name[:40]}{reader.lookahead.text}… within a function")
    return _FieldOperand(name)


def _parse_path(reader: TokenReader, name: str) -> FilterExpression:
    word = reader.lookahead.word
    if word not in _QUANTIFIERS:
        raise OptionNotImplemented(FILTER, f"the path {name[:40]}/…")
    reader.advance()
    return parse_elements(reader, name, is_all=word == "all")


# Elasticsearch allows 30 levels of clauses; a level of parentheses makes two at most (`clauses`).
MAX_NESTING_DEPTH = 10


def parse_filter(text: str) -> FilterExpression:
    """Return the expression of a filter; raise MalformedFilter, or OptionNotImplemented for unsupported OData."""
    reader = TokenReader(text)
    expression = _FilterParser(reader).parse_or()
    if reader.lookahead.kind != "end":
        reader.fail("and, or, or the end")
    return expression


class _FilterParser:
    """Parses what joins comparisons: and, or, not and parentheses."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self._levels = 0

    def parse_or(self) -> FilterExpression:
        parts = self._parse_joined("or", self._parse_and)
        return parts[0] if len(parts) == 1 else Or(parts)

    def _parse_and(self) -> FilterExpression:
        parts = self._parse_joined("and", self._parse_term)
        return parts[0] if len(parts) == 1 else And(parts)

    def _parse_joined(self, word: str, parse: Callable[[], FilterExpression]) -> tuple[FilterExpression, ...]:
        parts = [parse()]
        while self._reader.accept_word(word):
            parts.append(parse())
        return tuple(parts)

    def _parse_term(self) -> FilterExpression:
        if self._reader.accept_word("not"):
            return negated(self._parse_negated())
        return self._parse_nested() if self._reader.lookahead.text == "(" else parse_comparison(self._reader)

    def _parse_negated(self) -> FilterExpression:
        ahead = self._reader.lookahead
        if ahead.text == "(" or ahead.word == "not":
            return self._parse_nested()
        # By OData's precedence `not A eq 1` would negate the field alone; `not contains(A,'x')` negates the function.
        return parse_comparison(self._reader, is_negated=True)

    def _parse_nested(self) -> FilterExpression:
        self._levels += 1
        if self._levels > MAX_NESTING_DEPTH:
            raise MalformedFilter(f"has more than {MAX_NESTING_DEPTH} levels of parentheses.")
        if self._reader.lookahead.word == "not":
            inner = self._parse_term()
        else:
            self._reader.expect_symbol("(")
            inner = self.parse_or()
            self._reader.expect_symbol(")")
        self._levels -= 1
        return inner
