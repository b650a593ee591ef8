"""A recursive descent parser of `$filter`, for the supported part of the OData grammar.

It takes linear time, and limits nesting and the numbers of comparisons and values. Field names are checked later,
against the entity set.
"""

from collections.abc import Callable

from service.reso.filter.comparison_parser import parse_comparison
from service.reso.filter.expression import And, FilterExpression, Negation, Or
from service.reso.filter.token_reader import TokenReader
from service.reso.filter.tokenizer import MalformedFilter

# Elasticsearch allows 30 levels of clauses; a level of parentheses makes two at most (`clause_builder`).
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
            return Negation(self._parse_negated())
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
