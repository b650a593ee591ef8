"""$filter as a tree: comparisons of a field with a literal, joined by and, or, not."""

from __future__ import annotations

from dataclasses import dataclass

from tests.reso.query.filter_tokens import LITERALS, BadFilter, FilterToken, tokenize

# Each comparison with what it is when its sides are changed.
COMPARISONS = {"eq": "eq", "ne": "ne", "gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}


@dataclass(frozen=True)
class FieldComparison:
    """`field operator literal`."""

    field: str
    operator: str
    literal: FilterToken


@dataclass(frozen=True)
class InList:
    """`field in (literal, ...)`."""

    field: str
    literals: tuple[FilterToken, ...]


@dataclass(frozen=True)
class And:
    """All hold: `and`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """At least one holds: `or`."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Negation:
    """It does not hold."""

    node: Node


Node = FieldComparison | InList | And | Or | Negation


def parse(text: str) -> Node:
    """Return the tree of a $filter; raise BadFilter for what is none."""
    reader = _Parser(tokenize(text))
    node = reader.alternatives()
    if reader.next.kind != "end":
        raise reader.unexpected()
    return node


class _Parser:
    """Recursive descent: or, then and, then not, then a parenthesis or a comparison."""

    def __init__(self, found: list[FilterToken]) -> None:
        self._tokens = [*found, FilterToken("end", "the end")]
        self._at = 0

    @property
    def next(self) -> FilterToken:
        """The word that is not read yet."""
        return self._tokens[self._at]

    def unexpected(self) -> BadFilter:
        """Say what was found instead of what must stand here."""
        return BadFilter(f"unexpected: {self.next.text}")

    def _take(self, *texts: str) -> bool:
        if self.next.kind in {"word", "mark"} and self.next.text in texts:
            self._at += 1
            return True
        return False

    def _must(self, text: str) -> None:
        if not self._take(text):
            raise self.unexpected()

    def alternatives(self) -> Node:
        """Read what is joined by `or`."""
        nodes = [self._together()]
        while self._take("or"):
            nodes.append(self._together())
        return nodes[0] if len(nodes) == 1 else Or(tuple(nodes))

    def _together(self) -> Node:
        nodes = [self._single()]
        while self._take("and"):
            nodes.append(self._single())
        return nodes[0] if len(nodes) == 1 else And(tuple(nodes))

    def _single(self) -> Node:
        if self._take("not"):
            return Negation(self._single())
        if self._take("("):
            node = self.alternatives()
            self._must(")")
            return node
        return self._turned() if self.next.kind in LITERALS else self._comparison()

    def _comparison(self) -> Node:
        field = self._field()
        if self._take("in"):
            return InList(field, self._literals())
        operator = self.next.text
        if self._take(*COMPARISONS):
            return FieldComparison(field, operator, self._literal())
        return FieldComparison(field, "eq", FilterToken("boolean", "true", value=True))

    def _turned(self) -> Node:
        literal, operator = self._literal(), self.next.text
        if not self._take(*COMPARISONS):
            raise self.unexpected()
        return FieldComparison(self._field(), COMPARISONS[operator], literal)

    def _literals(self) -> tuple[FilterToken, ...]:
        self._must("(")
        found = [self._literal()]
        while self._take(","):
            found.append(self._literal())
        self._must(")")
        return tuple(found)

    def _field(self) -> str:
        return self._of({"word"}).text

    def _literal(self) -> FilterToken:
        return self._of(LITERALS)

    def _of(self, kinds: frozenset[str] | set[str]) -> FilterToken:
        found = self.next
        if found.kind not in kinds:
            raise self.unexpected()
        self._at += 1
        return found
