"""Evaluates `$filter` on rows in memory, with the semantics that the other entity sets have."""

from collections.abc import Callable, Mapping
from functools import partial

from service.errors import InvalidRequest
from service.reso.filter.evaluation import comparison_holds, evaluate
from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Negation,
    Or,
    TextCondition,
    TextTest,
)
from service.reso.filter.matchers import UnsupportedComparison
from service.reso.filter.numeric_matchers import TimestampMatcher
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER
from service.reso.static_sets.static_set import StaticSet

_TESTS: dict[TextTest, Callable[[str, str], bool]] = {
    TextTest.CONTAINS: lambda value, text: text in value,
    TextTest.STARTS_WITH: str.startswith,
    TextTest.ENDS_WITH: str.endswith,
}
_timestamps = TimestampMatcher("")


class StaticFilter:
    """A filter of a static set."""

    def __init__(self, static_set: StaticSet, expression: FilterExpression) -> None:
        """Check it; raise InvalidRequest or OptionNotImplemented."""
        self._set, self._expression = static_set, expression
        self._check(expression)

    def holds(self, row: Mapping[str, str]) -> bool:
        """Whether a row matches."""
        return evaluate(self._expression, partial(self._condition_holds, row))

    def _check(self, expression: FilterExpression) -> None:
        match expression:
            case And(parts) | Or(parts):
                for part in parts:
                    self._check(part)
            case Negation(part):
                self._check(part)
            case FieldComparison(name, _, value):
                self._check_literals(name, (value,))
            case InList(name, values):
                self._check_literals(name, values)
            case TextCondition(name, _, _, None) if not self._is_timestamp(name):
                self._require(name)
            case _:
                self._require(expression.field)
                raise OptionNotImplemented(FILTER, f"this condition on {expression.field}")

    def _check_literals(self, name: str, values: tuple[FilterLiteral, ...]) -> None:
        self._require(name)
        try:
            for value in values:
                self._operand(name, value)
        except UnsupportedComparison as fault:
            raise InvalidRequest.of(FILTER, f"{name} {fault}.") from None

    def _require(self, name: str) -> None:
        if name not in self._set.properties:
            raise InvalidRequest.of(FILTER, f"{self._set.name} has no property {name!r}.")

    def _is_timestamp(self, name: str) -> bool:
        return name in self._set.properties and self._set.properties[name].edm.is_timestamp

    def _operand(self, name: str, value: FilterLiteral) -> object:
        """Return the value of a literal; raise UnsupportedComparison for one of another type."""
        wanted = LiteralType.TIMESTAMP if self._is_timestamp(name) else LiteralType.TEXT
        if value.type not in {wanted, LiteralType.NULL}:
            raise UnsupportedComparison(f"is compared with {wanted}")
        return _timestamps.parse_number(value.text) if value.type is LiteralType.TIMESTAMP else value.text

    def _condition_holds(self, row: Mapping[str, str], condition: FieldCondition) -> bool:
        match condition:
            case FieldComparison() | InList():
                return comparison_holds(condition, partial(self._operands, row))
            case TextCondition(name, test, text, _):
                return _TESTS[test](row[name], text)
        return False

    def _operands(
        self, row: Mapping[str, str], name: str, _: ComparisonOperator, value: FilterLiteral
    ) -> tuple[object, object]:
        given = _timestamps.parse_number(row[name]) if self._is_timestamp(name) else row[name]
        return given, self._operand(name, value)
