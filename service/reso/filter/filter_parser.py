"""A recursive descent parser of `$filter`, for the supported part of the OData grammar.

It takes linear time, and limits nesting and the numbers of comparisons and values. Field names are checked later,
against the entity set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Negation,
    Or,
)
from service.reso.filter.tokenizer import MalformedFilter, expected_message, tokenize
from service.reso.protocol.odata_errors import OptionNotImplemented

if TYPE_CHECKING:
    from collections.abc import Iterator

# Elasticsearch allows 30 levels of clauses; a level of parentheses makes two at most (`clause_builder`).
MAX_NESTING_DEPTH = 10
# A comparison takes up to 40 µs of processor time (in a filter of events, which search five resources), a value 8 µs.
MAX_COMPARISONS = 60
MAX_VALUES = 500

_LITERAL_TYPES = {
    "timestamp": LiteralType.TIMESTAMP,
    "date": LiteralType.DATE,
    "number": LiteralType.NUMBER,
    "other": LiteralType.OTHER,
}
_KEYWORD_LITERALS = {"true": LiteralType.BOOLEAN, "false": LiteralType.BOOLEAN, "null": LiteralType.NULL}
_LOGICAL_OPERATORS = frozenset({"and", "or", "not"})
_UNIMPLEMENTED_OPERATORS = frozenset({"add", "sub", "mul", "div", "divby", "mod", "has"})
_OPERATORS = frozenset(ComparisonOperator)


def parse_filter(text: str) -> FilterExpression:
    """Return the expression of a filter; raise MalformedFilter, or OptionNotImplemented for unsupported OData."""
    return _FilterParser(text).parse()


class _FilterParser:
    """Parses from left to right with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._lookahead = next(self._tokens)
        self._levels = 0
        self._comparisons = 0
        self._values = 0

    def parse(self) -> FilterExpression:
        expression = self._parse_or()
        if self._lookahead.kind != "end":
            self._fail("and, or, or the end")
        return expression

    def _parse_or(self) -> FilterExpression:
        parts = [self._parse_and()]
        while self._accept_word("or"):
            parts.append(self._parse_and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _parse_and(self) -> FilterExpression:
        parts = [self._parse_term()]
        while self._accept_word("and"):
            parts.append(self._parse_term())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _parse_term(self) -> FilterExpression:
        if self._accept_word("not"):
            # By OData's precedence it would negate the field alone.
            if self._lookahead.text != "(" and self._lookahead.word != "not":
                self._fail("a parenthesis: write not (…)")
            return Negation(self._parse_nested())
        return self._parse_nested() if self._lookahead.text == "(" else self._parse_comparison()

    def _parse_nested(self) -> FilterExpression:
        self._levels += 1
        if self._levels > MAX_NESTING_DEPTH:
            raise MalformedFilter(f"has more than {MAX_NESTING_DEPTH} levels of parentheses.")
        if self._lookahead.word == "not":
            inner = self._parse_term()
        else:
            self._expect_symbol("(")
            inner = self._parse_or()
            self._expect_symbol(")")
        self._levels -= 1
        return inner

    def _parse_comparison(self) -> FilterExpression:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise MalformedFilter(f"has more than {MAX_COMPARISONS} comparisons; give many values with in (…).")
        left = self._parse_operand()
        word = self._lookahead.word
        if word == "in" and isinstance(left, str):
            self._advance()
            return InList(left, tuple(self._parse_list()))
        self._refuse_unimplemented(word)
        if word not in _OPERATORS:
            self._fail("eq, ne, gt, ge, lt, le or in")
        self._advance()
        return self._build_comparison(left, ComparisonOperator(word), self._parse_operand())

    def _build_comparison(
        self, left: str | FilterLiteral, operator: ComparisonOperator, right: str | FilterLiteral
    ) -> FieldComparison:
        self._refuse_unimplemented(self._lookahead.word)
        if isinstance(left, str) and isinstance(right, FilterLiteral):
            return FieldComparison(left, operator, right)
        if isinstance(left, FilterLiteral) and isinstance(right, str):
            return FieldComparison(right, operator.mirrored, left)
        if isinstance(left, str):
            raise OptionNotImplemented("$filter", "a comparison of two fields")
        raise MalformedFilter("compares two values; name a field on one side.")

    def _refuse_unimplemented(self, word: str) -> None:
        if word in _UNIMPLEMENTED_OPERATORS:
            raise OptionNotImplemented("$filter", f"the operator {word}")

    def _parse_operand(self) -> str | FilterLiteral:
        token = self._lookahead
        if token.kind != "word" or token.word in _KEYWORD_LITERALS:
            return self._parse_literal()
        if token.word in _LOGICAL_OPERATORS:
            self._fail("a field or a value")
        self._advance()
        if self._lookahead.text == "(":
            raise OptionNotImplemented("$filter", f"the function {token.text[:40]}")
        if self._lookahead.text == "/":
            raise OptionNotImplemented("$filter", f"the path {token.text[:40]}/…")
        return token.text

    def _parse_literal(self) -> FilterLiteral:
        token = self._lookahead
        if token.kind == "alias":
            raise OptionNotImplemented("$filter", f"{token.text[:40]}, a parameter alias or a system value,")
        if token.text == "-":
            raise OptionNotImplemented("$filter", "the operator -")
        if token.kind == "text":
            self._advance()
            return FilterLiteral(LiteralType.TEXT, token.text[1:-1].replace("''", "'"))
        literal_type = _LITERAL_TYPES.get(token.kind) or _KEYWORD_LITERALS.get(token.word)
        if literal_type is None:
            self._fail("a value")
        self._advance()
        return FilterLiteral(literal_type, token.text)

    def _parse_list(self) -> Iterator[FilterLiteral]:
        self._expect_symbol("(")
        yield self._parse_listed()
        while self._lookahead.text == ",":
            self._advance()
            yield self._parse_listed()
        self._expect_symbol(")")

    def _parse_listed(self) -> FilterLiteral:
        self._values += 1
        if self._values > MAX_VALUES:
            raise MalformedFilter(f"has more than {MAX_VALUES} values in lists; send several requests.")
        return self._parse_literal()

    def _accept_word(self, word: str) -> bool:
        is_match = self._lookahead.word == word
        if is_match:
            self._advance()
        return is_match

    def _expect_symbol(self, symbol: str) -> None:
        if self._lookahead.text != symbol:
            self._fail(symbol)
        self._advance()

    def _advance(self) -> None:
        self._lookahead = next(self._tokens)

    def _fail(self, expected: str) -> NoReturn:
        raise MalformedFilter(expected_message(self._lookahead.offset, expected, self._lookahead.text))
