"""Parses one condition of `$filter`: a comparison, a function that tests a text, or `any` and `all`."""

from typing import NamedTuple

from service.reso.filter.element_parser import parse_elements
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FieldFunction,
    FilterExpression,
    FilterLiteral,
    FunctionComparison,
    HasValue,
    InList,
    LiteralType,
    Negation,
    TextCondition,
    TextTest,
)
from service.reso.filter.token_reader import KEYWORD_LITERALS, TokenReader
from service.reso.filter.tokenizer import MalformedFilter
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER

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
    if reader.lookahead.text == "(":
        return _parse_function(reader, name)
    if reader.accept_symbol("/"):
        return _parse_path(reader, name)
    return _FieldOperand(name)


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
