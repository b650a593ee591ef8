"""Comparisons of a member of the address under a display licence: it is null where the address is hidden."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.reso.filter.expression import ComparisonOperator, FieldFunction, FilterLiteral, LiteralType, TextCondition
from service.reso.filter.matchers import Matcher
from service.search.query import HIDDEN_ADDRESS, Clause, match_any, with_shown_address


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

    def match_text(self, condition: TextCondition) -> Clause:
        """Match texts that pass a test; raise UnansweredFunction."""
        return with_shown_address(self.found.match_text(condition))

    def match_function(self, function: FieldFunction, operator: ComparisonOperator, value: FilterLiteral) -> Clause:
        """Match a function of the value compared with a literal; null differs from every literal."""
        found = self.found.match_function(function, operator, value)
        return match_any(found, HIDDEN_ADDRESS) if operator is ComparisonOperator.NE else with_shown_address(found)
