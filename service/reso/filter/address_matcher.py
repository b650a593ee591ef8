"""Comparisons of a member of the address under a display licence: it is null where the address is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.reso.filter.expression import ComparisonOperator, FilterLiteral, LiteralType
from service.reso.filter.matchers import Matcher
from service.search.display import HIDDEN_ADDRESS, with_shown_address
from service.search.query import Clause, match_any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ShownAddressMatcher(Matcher):
    """A member of the address, found by `found` where it is shown."""

    found: Matcher

    def match_any(self, values: Sequence[FilterLiteral]) -> Clause:
        """Match any of the values, which may include null; raise UnsupportedComparison."""
        shown = with_shown_address(self.found.match_any(values))
        has_null = any(value.type is LiteralType.NULL for value in values)
        return match_any(shown, HIDDEN_ADDRESS) if has_null else shown

    def match_comparison(self, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match values greater or less than a value; raise UnsupportedComparison."""
        return with_shown_address(self.found.match_comparison(operator, value))
