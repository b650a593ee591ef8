"""Reads the text of `$filter`: the few rules of the grammar of OData that this service knows.

It takes time in proportion to the text, and bounds how deep parentheses go and how much is compared. Names of fields
are judged later, by who knows the entity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from service.reso.expression import Among, Both, Comparison, Either, Expression, Literal, Not, Operator, Sort
from service.reso.faults import NotImplementedHere
from service.reso.tokens import Malformed, expected, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

# Elasticsearch takes 30 clauses within each other; a level makes two of them at most (`service.reso.clauses`).
MOST_LEVELS = 10
MOST_COMPARISONS = 500

_SORTS = {"moment": Sort.MOMENT, "day": Sort.DAY, "number": Sort.NUMBER, "other": Sort.OTHER}
_WORDS = {"true": Sort.TRUTH, "false": Sort.TRUTH, "null": Sort.NULL}
_JOINING = frozenset({"and", "or", "not"})
_ELSEWHERE = frozenset({"add", "sub", "mul", "div", "divby", "mod", "has"})
_OPERATORS = frozenset(Operator)


def read_filter(text: str) -> Expression:
    """Return what a filter says; raise Malformed, or NotImplementedHere for what is known to OData alone."""
    return _Reader(text).whole()


class _Reader:
    """Reads from left to right, and sees one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._next = next(self._tokens)
        self._levels = 0
        self._comparisons = 0

    def whole(self) -> Expression:
        read = self._either()
        if self._next.kind != "end":
            self._refuse("and, or, or the end")
        return read

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self) -> Expression:
        parts = [self._single()]
        while self._takes("and"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _single(self) -> Expression:
        if self._takes("not"):
            # By the precedence of OData it would negate the field alone.
            if self._next.text != "(" and self._next.word != "not":
                self._refuse("a parenthesis: write not (…)")
            return Not(self._deeper())
        return self._deeper() if self._next.text == "(" else self._comparison()

    def _deeper(self) -> Expression:
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise Malformed(f"has more than {MOST_LEVELS} levels of parentheses.")
        if self._next.word == "not":
            inner = self._single()
        else:
            self._mark("(")
            inner = self._either()
            self._mark(")")
        self._levels -= 1
        return inner

    def _comparison(self) -> Expression:
        self._comparisons += 1
        if self._comparisons > MOST_COMPARISONS:
            raise Malformed(f"has more than {MOST_COMPARISONS} comparisons; give many values with in (…).")
        left = self._operand()
        word = self._next.word
        if word == "in" and isinstance(left, str):
            self._take()
            return Among(left, tuple(self._listed()))
        self._refuse_elsewhere(word)
        if word not in _OPERATORS:
            self._refuse("eq, ne, gt, ge, lt, le or in")
        self._take()
        return self._compared(left, Operator(word), self._operand())

    def _compared(self, left: str | Literal, operator: Operator, right: str | Literal) -> Comparison:
        self._refuse_elsewhere(self._next.word)
        if isinstance(left, str) and isinstance(right, Literal):
            return Comparison(left, operator, right)
        if isinstance(left, Literal) and isinstance(right, str):
            return Comparison(right, operator.turned, left)
        if isinstance(left, str):
            raise NotImplementedHere("$filter", "a comparison of two fields")
        raise Malformed("compares two values; name a field on one side.")

    def _refuse_elsewhere(self, word: str) -> None:
        if word in _ELSEWHERE:
            raise NotImplementedHere("$filter", f"the operator {word}")

    def _operand(self) -> str | Literal:
        token = self._next
        if token.kind != "word" or token.word in _WORDS:
            return self._literal()
        if token.word in _JOINING:
            self._refuse("a field or a value")
        self._take()
        if self._next.text == "(":
            raise NotImplementedHere("$filter", f"the function {token.text[:40]}")
        if self._next.text == "/":
            raise NotImplementedHere("$filter", f"the path {token.text[:40]}/…")
        return token.text

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == "alias":
            raise NotImplementedHere("$filter", f"{token.text[:40]}, a parameter alias or a system value,")
        if token.text == "-":
            raise NotImplementedHere("$filter", "the operator -")
        if token.kind == "text":
            self._take()
            return Literal(Sort.TEXT, token.text[1:-1].replace("''", "'"))
        sort = _SORTS.get(token.kind) or _WORDS.get(token.word)
        if sort is None:
            self._refuse("a value")
        self._take()
        return Literal(sort, token.text)

    def _listed(self) -> Iterator[Literal]:
        self._mark("(")
        yield self._literal()
        while self._next.text == ",":
            self._take()
            yield self._literal()
        self._mark(")")

    def _takes(self, word: str) -> bool:
        is_there = self._next.word == word
        if is_there:
            self._take()
        return is_there

    def _mark(self, mark: str) -> None:
        if self._next.text != mark:
            self._refuse(mark)
        self._take()

    def _take(self) -> None:
        self._next = next(self._tokens)

    def _refuse(self, what: str) -> NoReturn:
        raise Malformed(expected(self._next.at, what, self._next.text))
