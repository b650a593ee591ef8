"""How records are sorted by a search field; nulls come before all values, as OData defines it."""

from enum import Enum
from math import isfinite
from sys import float_info
from typing import NamedTuple

from mappings.search_fields import SearchField
from service.reso.filter.matchers import MATCH_ALL, MATCH_NONE
from service.search.query import Clause, lacks_field, match_any

SortValue = str | int | float | None


class SortKind(Enum):
    """A type of sort values: the sort value of a record without one, which no value equals, and the greatest value."""

    IDENTIFIER = ("", "\U0010ffff")
    KEYWORD = (None, "\U0010ffff")
    LONG = (-(2**63), 2**63 - 1)
    DOUBLE = (-float_info.max, float_info.max)

    @property
    def null(self) -> SortValue:
        """The sort value of a record without a value."""
        null: SortValue = self.value[0]
        return null

    def limit(self, *, is_upper: bool) -> SortValue:
        """Return the least or the greatest sort value."""
        limit: SortValue = self.value[is_upper]
        return limit

    def accepts(self, value: object) -> bool:
        """Whether a value is a sort value of this type."""
        if self in {SortKind.KEYWORD, SortKind.IDENTIFIER}:
            return isinstance(value, str) or (value is None and self is SortKind.KEYWORD)
        if self is SortKind.DOUBLE and type(value) is float:
            return isfinite(value)
        return type(value) is int and -(2**63) <= value < 2**63


_KIND_BY_MAPPING = {"keyword": SortKind.KEYWORD, "long": SortKind.LONG, "double": SortKind.DOUBLE}


class SortField(NamedTuple):
    """A search field that sorts records. A resource may lack it: then it is null in all of its records."""

    name: str
    kind: SortKind
    is_nullable: bool = True
    is_absent: bool = False

    def clause(self, *, is_descending: bool) -> dict[str, object]:
        """Return the element of `sort`."""
        order = "desc" if is_descending else "asc"
        if not self.is_nullable:
            return {self.name: order}
        missing = ("_last" if is_descending else "_first") if self.kind is SortKind.KEYWORD else self.kind.null
        return {self.name: {"order": order, "missing": missing}}

    def bound(self, value: SortValue, *, is_descending: bool) -> Clause | None:
        """Return the clause for the records at or after a sort value, None for all."""
        if value == self.kind.null:
            return (MATCH_ALL if self.is_absent else lacks_field(self.name)) if is_descending else None
        if self.is_absent:
            return None if is_descending else MATCH_NONE
        within: Clause = {"range": {self.name: {"lte" if is_descending else "gte": value}}}
        return match_any(within, lacks_field(self.name)) if is_descending and self.is_nullable else within


ID = SortField("id", SortKind.IDENTIFIER, is_nullable=False)
CLOCK = SortField("clock", SortKind.LONG, is_nullable=False)


def sort_field(indexed: SearchField) -> SortField | None:
    """Return how a search field sorts records, None if it has no doc values to sort by."""
    kind = _KIND_BY_MAPPING.get(str(indexed.mapping["type"]))
    has_doc_values = indexed.mapping.get("doc_values", True) is not False
    return SortField(indexed.name, kind) if kind is not None and has_doc_values else None
