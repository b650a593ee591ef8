"""A $filter tree as a function of a record, with the types of the fields checked."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.reso.query.filter_grammar import And, FieldComparison, InList, Negation, Node
from tests.reso.query.filter_tokens import BadFilter, FilterToken
from tests.reso.server.schema import BOOLEAN, DATE, NUMBERS, STRING, TIMESTAMP, EntityType, Record
from tests.reso.server.timestamps import to_microseconds

Predicate = Callable[[Record], bool]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_KINDS = {STRING: "string", BOOLEAN: "boolean", DATE: "date", TIMESTAMP: "moment"} | dict.fromkeys(NUMBERS, "number")


def match_all(_record: Record) -> bool:
    """Hold for every record: what no $filter says."""
    return True


@dataclass(frozen=True)
class PredicateBuilder:
    """Makes predicates over one resource. `compares_text`: date-times are compared as they are written."""

    entity: EntityType
    compares_text: bool = False

    def predicate(self, node: Node) -> Predicate:
        """Return the function of a tree; raise BadFilter for an unknown field or a literal of another type."""
        if isinstance(node, FieldComparison):
            return self._compare(node)
        if isinstance(node, InList):
            return self._within(node)
        if isinstance(node, Negation):
            inner = self.predicate(node.node)
            return lambda record: not inner(record)
        return _joined([self.predicate(one) for one in node.nodes], all if isinstance(node, And) else any)

    def _compare(self, node: FieldComparison) -> Predicate:
        field, value, read = node.field, self._value(node.field, node.literal), self._reader(node.field)
        if node.operator == "eq":
            return lambda record: read(record.get(field)) == value
        if node.operator == "ne":
            return lambda record: read(record.get(field)) != value
        order, kind = _ORDERS[node.operator], str if isinstance(value, str) else (int, float)
        if value is None:
            return lambda _record: False
        return lambda record: isinstance(found := read(record.get(field)), kind) and order(found, value)

    def _within(self, node: InList) -> Predicate:
        field, read = node.field, self._reader(node.field)
        values = {self._value(field, literal) for literal in node.literals}
        return lambda record: _hashable(found := read(record.get(field))) and found in values

    def _reader(self, field: str) -> Callable[[object], Any]:
        return to_microseconds if self.entity.fields.get(field) == TIMESTAMP and not self.compares_text else _same

    def _value(self, field: str, literal: FilterToken) -> Any:
        type_ = self.entity.fields.get(field)
        if type_ is None:
            msg = f"{self.entity.name} has no field {field}"
            raise BadFilter(msg)
        if literal.kind not in {_KINDS.get(type_), "null"}:
            msg = f"{field} is {type_}: {literal.text}"
            raise BadFilter(msg)
        return literal.text if literal.kind == "moment" and self.compares_text else literal.value


def _same(value: object) -> object:
    return value


def _hashable(value: object) -> bool:
    return not isinstance(value, list | dict)


def _joined(inner: list[Predicate], join: Callable[[Any], bool]) -> Predicate:
    if len(inner) == 2 and join is all:  # by far the most frequent, and faster so
        first, second = inner
        return lambda record: first(record) and second(record)
    return lambda record: join(one(record) for one in inner)
