"""Reads a filter token by token: words, symbols and literals."""

from collections.abc import Iterator
from typing import NoReturn

from service.reso.filter.expression import NOW, FilterLiteral, LiteralType
from service.reso.filter.tokenizer import FilterToken, MalformedFilter, expected_message, tokenize
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER

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
        self._comparisons = 0
        self._values = 0

    def advance(self) -> FilterToken:
        """Return the token and read the next one."""
        token, self.lookahead = self.lookahead, next(self._tokens)
        return token

    def accept_word(self, *words: str) -> str:
        """Return the word that follows and read on if it is one of these, else an empty text."""
        word = self.lookahead.word if self.lookahead.word in words else ""
        if word:
            self.advance()
        return word

    def accept_symbol(self, symbol: str) -> bool:
        """Whether a symbol follows, which is then read."""
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
        return FilterLiteral(literal_type, token.text)

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
