"""The filter of a child set: a condition on parents, which the index answers, and what it leaves to be decided.

A comparison with a child's key holds for all children of a parent or for none, except for the parent that the key
names. So the parents are selected by their own keys, and only the children of those named in the filter are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP
from service.reso.child_sets.child_set import Child, ChildKey, ChildSet
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
)
from service.reso.filter.numeric_matchers import TimestampMatcher
from service.reso.protocol.odata_errors import OptionNotImplemented
from service.reso.protocol.option_names import FILTER
from service.search.query import spellings

_COMPLEMENT = {
    ComparisonOperator.EQ: ComparisonOperator.NE,
    ComparisonOperator.NE: ComparisonOperator.EQ,
    ComparisonOperator.GT: ComparisonOperator.LE,
    ComparisonOperator.GE: ComparisonOperator.LT,
    ComparisonOperator.LT: ComparisonOperator.GE,
    ComparisonOperator.LE: ComparisonOperator.GT,
}
# For the parent of a key: its children may be on either side of the key.
_OF_PARENT = {ComparisonOperator.GT: ComparisonOperator.GE, ComparisonOperator.LT: ComparisonOperator.LE}
_NULL = FilterLiteral(LiteralType.NULL, "null")
_ALL = And(())
_timestamps = TimestampMatcher("clock")


@dataclass(frozen=True)
class ChildCondition:
    """A filter of a child set; None selects all children."""

    child_set: ChildSet
    expression: FilterExpression | None

    @cached_property
    def of_parents(self) -> FilterExpression | None:
        """The condition on parents, with their keys in place of their children's, which it holds for at least."""
        return None if self.expression is None else _of_parents(self.expression, self.child_set.key)

    @cached_property
    def divided(self) -> frozenset[str]:
        """The keys of the parents of whose children only some may match."""
        return frozenset(
            name
            for literal in _key_literals(self.expression, self.child_set.key)
            for name in spellings(ChildKey.of(literal.text).parent)
            if name
        )

    def holds(self, child: Child) -> bool:
        """Whether a child of a selected parent matches; raise OptionNotImplemented for what cannot be compared."""
        if self.expression is None or child.key.parent not in self.divided:
            return True
        return evaluate(self.expression, partial(self._condition_holds, child))

    def _condition_holds(self, child: Child, condition: FieldCondition) -> bool:
        if isinstance(condition, FieldComparison | InList):
            return comparison_holds(condition, partial(self._operands, child))
        raise self._refusal(condition.field)

    def _operands(
        self, child: Child, name: str, operator: ComparisonOperator, value: FilterLiteral
    ) -> tuple[object, object]:
        """Return the value of a property and that of a literal, which the index has accepted."""
        is_equality = operator in {ComparisonOperator.EQ, ComparisonOperator.NE}
        declared, parent = self.child_set, child.key.parent
        if name == declared.key:
            given = ChildKey.of(value.text)
            is_same = is_equality and parent in spellings(given.parent)
            return child.key, given._replace(parent=parent) if is_same else given
        if name == declared.parent_key:
            return parent, parent if is_equality and parent in spellings(value.text) else value.text
        if name == MODIFICATION_TIMESTAMP:
            return child.header.clock, _timestamps.parse_number(value.text)
        if name == declared.parent_type:
            return "Property", value.text
        raise self._refusal(name)

    def _refusal(self, name: str) -> OptionNotImplemented:
        return OptionNotImplemented(FILTER, f"a filter by {self.child_set.key} together with this one by {name}")


def _key_literals(expression: FilterExpression | None, key: str) -> Iterator[FilterLiteral]:
    match expression:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _key_literals(part, key)
        case Negation(part):
            yield from _key_literals(part, key)
        case FieldComparison(name, _, value) if name == key:
            yield value
        case InList(name, values) if name == key:
            yield from values


def _of_parents(expression: FilterExpression, key: str, *, is_negated: bool = False) -> FilterExpression:
    """Return the condition on parents. Negations are resolved: none may be around a condition that holds for more."""
    match expression:
        case And(parts) | Or(parts):
            inner = tuple(_of_parents(part, key, is_negated=is_negated) for part in parts)
            return And(inner) if isinstance(expression, And) is not is_negated else Or(inner)
        case Negation(part):
            return _of_parents(part, key, is_negated=not is_negated)
        case FieldComparison(name, operator, value) if name == key:
            return _parent_comparison(name, operator, value, is_negated=is_negated)
        case InList(name, values) if name == key:
            parents = InList(name, tuple(map(_parent_literal, values)))
            # Refused if a value is of another type, else true of all.
            return Or((parents, _ALL)) if is_negated else parents
    return Negation(expression) if is_negated else expression


def _parent_comparison(
    name: str, operator: ComparisonOperator, value: FilterLiteral, *, is_negated: bool
) -> FilterExpression:
    if value.type is LiteralType.NULL:
        is_all = (operator is ComparisonOperator.NE) is not is_negated
        return _ALL if is_all else FieldComparison(name, ComparisonOperator.EQ, _NULL)
    operator = _COMPLEMENT[operator] if is_negated else operator
    parent = _parent_literal(value)
    if operator is ComparisonOperator.NE:
        return Or((FieldComparison(name, ComparisonOperator.EQ, parent), _ALL))
    return FieldComparison(name, _OF_PARENT.get(operator, operator), parent)


def _parent_literal(value: FilterLiteral) -> FilterLiteral:
    """Return the key of the parent in the key of a child; a literal of another type as it is, which is refused."""
    return value._replace(text=ChildKey.of(value.text).parent) if value.type is LiteralType.TEXT else value
