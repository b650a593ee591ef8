"""Parses `any` and `all`: the condition on an element becomes the set of texts that satisfy it."""

from service.reso.filter.expression import (
    AnyElement,
    ElementSet,
    FilterExpression,
    FilterLiteral,
    LiteralType,
    Negation,
)
from service.reso.filter.token_reader import TokenReader
from service.reso.filter.tokenizer import MalformedFilter
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER

_EVERYTHING = ElementSet(frozenset(), is_complement=True)
_MAX_DEPTH = 10


def parse_elements(reader: TokenReader, field: str, *, is_all: bool) -> FilterExpression:
    """Parse what follows `any` or `all`; `any()` is true of a collection that is not empty."""
    reader.expect_symbol("(")
    if not is_all and reader.accept_symbol(")"):
        return AnyElement(field, _EVERYTHING)
    variable = reader.expect_name("a variable")
    reader.expect_symbol(":")
    elements = _ElementParser(reader, variable).parse_or()
    reader.expect_symbol(")")
    return Negation(AnyElement(field, ~elements)) if is_all else AnyElement(field, elements)


class _ElementParser:
    """Parses comparisons of the variable with texts, joined by and, or and not."""

    def __init__(self, reader: TokenReader, variable: str) -> None:
        self._reader = reader
        self._variable = variable
        self._levels = 0

    def parse_or(self) -> ElementSet:
        found = self._parse_and()
        while self._reader.accept_word("or"):
            found |= self._parse_and()
        return found

    def _parse_and(self) -> ElementSet:
        found = self._parse_term()
        while self._reader.accept_word("and"):
            found &= self._parse_term()
        return found

    def _parse_term(self) -> ElementSet:
        if self._reader.accept_word("not"):
            return ~self._parse_nested()
        return self._parse_nested() if self._reader.lookahead.text == "(" else self._parse_comparison()

    def _parse_nested(self) -> ElementSet:
        self._levels += 1
        if self._levels > _MAX_DEPTH:
            raise MalformedFilter(f"has more than {_MAX_DEPTH} levels of parentheses.")
        self._reader.expect_symbol("(")
        found = self.parse_or()
        self._reader.expect_symbol(")")
        self._levels -= 1
        return found

    def _parse_comparison(self) -> ElementSet:
        self._reader.count_comparison()
        if self._reader.lookahead.kind != "word":
            literal, operator = self._reader.read_literal(), self._read_operator("eq", "ne")
            self._read_variable()
            return self._element_set(operator, (literal,))
        self._read_variable()
        operator = self._read_operator("eq", "ne", "in")
        given = tuple(self._reader.read_list()) if operator == "in" else (self._reader.read_literal(),)
        return self._element_set(operator, given)

    def _read_variable(self) -> None:
        name = self._reader.expect_name(f"the variable {self._variable[:40]}")
        if self._reader.lookahead.text in {"(", "/"}:
            raise OptionNotImplemented(FILTER, f"{name[:40]}{self._reader.lookahead.text}… within any or all")
        if name != self._variable:
            raise MalformedFilter(f"compares {name[:40]!r} within any or all instead of {self._variable[:40]!r}.")

    def _read_operator(self, *operators: str) -> str:
        if not (operator := self._reader.accept_word(*operators)):
            if self._reader.lookahead.kind == "word":
                raise OptionNotImplemented(FILTER, f"{self._reader.lookahead.text[:40]} within any or all")
            self._reader.fail(", ".join(operators))
        return operator

    @staticmethod
    def _element_set(operator: str, given: tuple[FilterLiteral, ...]) -> ElementSet:
        texts = [value.text for value in given if value.type is LiteralType.TEXT]
        if len(texts) + sum(value.type is LiteralType.NULL for value in given) < len(given):
            raise MalformedFilter(f"compares elements with something other than {LiteralType.TEXT}.")
        return ElementSet(frozenset(texts), is_complement=operator == "ne")
