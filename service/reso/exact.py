"""How a property is found exactly: from a value of a filter to a clause, for each way in which values are indexed.

A comparison with null follows OData: nothing is greater or less than null, and null equals nothing but null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from mappings.spelling import letters_and_digits
from service.query import Clause, absent, either, neither, term, terms
from service.reso.expression import Literal, Operator, Sort

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

EVERYTHING: Clause = {"match_all": {}}
NOTHING: Clause = {"match_none": {}}
BOUNDS = {Operator.GT: "gt", Operator.GE: "gte", Operator.LT: "lt", Operator.LE: "lte"}


class Unfit(Exception):
    """A value or an operator that a property cannot be compared with; its text says what can be."""


def _refuse_unknown(values: Iterable[str], names: Collection[str]) -> None:
    """Raise Unfit for a name that there is not, however it is spelt."""
    known = set(map(letters_and_digits, names))
    if unknown := [value for value in values if letters_and_digits(value) not in known]:
        raise Unfit(f"has no value {unknown[0][:40]!r}; it is one of {', '.join(names)}")


class Found(ABC):
    """How a property is found."""

    @abstractmethod
    def among(self, values: Sequence[Literal]) -> Clause:
        """Match what is one of some values, null among them perhaps; raise Unfit."""

    @abstractmethod
    def compare(self, operator: Operator, value: Literal) -> Clause:
        """Match what is greater or less than a value; raise Unfit."""


class Equal(Found):
    """A property that is found by equality; subclasses say how."""

    wanted: ClassVar[Sort] = Sort.TEXT

    def among(self, values: Sequence[Literal]) -> Clause:
        """Match what is one of some values, null among them perhaps; raise Unfit."""
        given = [value for value in values if value.sort is not Sort.NULL]
        if any(value.sort is not self.wanted for value in given):
            raise Unfit(f"is compared with {self.wanted}")
        clauses = [self.missing()] if len(given) < len(values) else []
        return either(*clauses, *([self.equal([value.text for value in given])] if given else []))

    def compare(self, operator: Operator, value: Literal) -> Clause:  # noqa: ARG002 - there is no order
        """Raise Unfit."""
        raise Unfit("is compared by eq, ne and in")

    @abstractmethod
    def equal(self, values: Sequence[str]) -> Clause:
        """Match what is one of some values that are not null."""

    def missing(self) -> Clause:
        """Match what has no value."""
        return NOTHING


class Ordered(Equal):
    """A property that is found by order, too."""

    def compare(self, operator: Operator, value: Literal) -> Clause:
        """Match what is greater or less than a value; raise Unfit."""
        if value.sort is Sort.NULL:
            return NOTHING
        if value.sort is not self.wanted:
            raise Unfit(f"is compared with {self.wanted}")
        return self.bounded(operator, value.text)

    @abstractmethod
    def bounded(self, operator: Operator, value: str) -> Clause:
        """Match what lies beyond a value."""


@dataclass(frozen=True)
class Nowhere(Found):
    """A property that a resource does not have: null in all of its records."""

    like: Found

    def among(self, values: Sequence[Literal]) -> Clause:
        """Match everything where null is asked for."""
        self.like.among(values)
        return EVERYTHING if any(value.sort is Sort.NULL for value in values) else NOTHING

    def compare(self, operator: Operator, value: Literal) -> Clause:
        """Match nothing."""
        self.like.compare(operator, value)
        return NOTHING


@dataclass(frozen=True)
class Identifier(Ordered):
    """The key: looked up by `_id`, ordered by the doc values of `id`."""

    def equal(self, values: Sequence[str]) -> Clause:
        """Match records with these keys; none is empty, which Elasticsearch would refuse to look for."""
        given = [value for value in values if value]
        return terms("_id", given) if given else NOTHING

    def bounded(self, operator: Operator, value: str) -> Clause:
        """Match keys beyond one, by code points."""
        return {"range": {"id": {BOUNDS[operator]: value}}}


@dataclass(frozen=True)
class Keyword(Equal):
    """A text that is indexed as it is."""

    name: str

    def equal(self, values: Sequence[str]) -> Clause:
        """Match records with one of these texts."""
        return term(self.name, values[0]) if len(values) == 1 else terms(self.name, values)

    def missing(self) -> Clause:
        """Match records without the text."""
        return absent(self.name)


@dataclass(frozen=True)
class Coded(Equal):
    """Names for what is indexed under other values: `codes` are those of each name; other names there are none."""

    name: str
    codes: Mapping[str, tuple[object, ...]] = field(hash=False)

    def equal(self, values: Sequence[str]) -> Clause:
        """Match records of these names; raise Unfit for a name that there is not."""
        _refuse_unknown(values, self.codes)
        known = {letters_and_digits(name): codes for name, codes in self.codes.items()}
        found = [code for value in values for code in known[letters_and_digits(value)]]
        return terms(self.name, found) if found else NOTHING

    def missing(self) -> Clause:
        """Match records of which no name is told."""
        return neither(terms(self.name, [code for codes in self.codes.values() for code in codes]))


@dataclass(frozen=True)
class Constant(Equal):
    """A text that all records of a resource have; `names` are those that others have, empty if any may be asked for."""

    value: str
    names: tuple[str, ...] = ()

    def equal(self, values: Sequence[str]) -> Clause:
        """Match everything or nothing; raise Unfit for a name that there is not."""
        if self.names:
            _refuse_unknown(values, self.names)
        alike = letters_and_digits if self.names else str
        return EVERYTHING if alike(self.value) in set(map(alike, values)) else NOTHING


@dataclass(frozen=True)
class Presence(Equal):
    """A text that says whether a field has a value: `present` if it has, else `lacking`."""

    name: str
    present: str
    lacking: str

    def equal(self, values: Sequence[str]) -> Clause:
        """Match records with or without the field; raise Unfit for any other text."""
        names: dict[str, Clause] = {self.present: {"exists": {"field": self.name}}, self.lacking: absent(self.name)}
        if unknown := [value for value in values if value not in names]:
            raise Unfit(f"has no value {unknown[0][:40]!r}; it is {self.present} or {self.lacking}")
        return either(*(clause for name, clause in names.items() if name in values))
