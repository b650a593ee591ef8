"""Entity sets that describe the others, `Lookup` and `Field`: their rows are kept in memory and filtered there.

The rows follow from declarations: they are few, and the same for all keys that may see the same fields. Filters have
the semantics that they have in the other entity sets.
"""

import re
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, lru_cache, partial
from importlib.resources import files
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path

import msgspec

from mappings.data_dictionary import MODIFICATION_TIMESTAMP
from service.background import in_turns
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.cost import Searched
from service.reso.filter.clauses import UnsupportedComparison
from service.reso.filter.expression import (
    FieldComparison,
    FieldCondition,
    FilterExpression,
    FilterLiteral,
    InList,
    LiteralType,
    Predicate,
    TextCondition,
    TextTest,
    compile_comparison,
    compile_filter,
    conditions,
)
from service.reso.filter.value_matchers import TimestampMatcher
from service.reso.ordering import Position, SkipToken, SortKind
from service.reso.protocol import FILTER, ORDER_BY, SELECT, OptionNotImplemented, OrderBy
from service.reso.sets.edm_types import EdmType, to_timestamp
from service.reso.sets.entity_query import selected_properties
from service.reso.sets.entity_set import EntityProperty, EntitySet


@dataclass(frozen=True)
class StaticRow:
    """A row: its values by property. A key sees it if it may see one of `groups`; "" means without a group."""

    values: dict[str, str]
    groups: frozenset[str]


@dataclass(frozen=True)
class StaticSet(EntitySet):
    """An entity set of rows in the order of their keys; `build` returns them."""

    build: Callable[[], tuple[StaticRow, ...]] = field(default=tuple, hash=False)
    description: str = ""

    def __hash__(self) -> int:
        """Hash by name, which is unique."""
        return hash(self.name)

    @property
    def sortable(self) -> tuple[str, ...]:
        """The properties that `$orderby` accepts."""
        return (self.key,)

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return self.description

    def visible(self, withheld: Collection[str]) -> list[dict[str, str]]:
        """Return the rows for a key that may not see some field groups."""
        return [row.values for row in self.build() if not row.groups <= {*withheld}]


_LOOKUP = ("LookupKey", "LookupName", "LookupValue", "StandardLookupValue", "LegacyODataValue", MODIFICATION_TIMESTAMP)
_FIELD = ("FieldKey", "ResourceName", "FieldName", "DisplayName", MODIFICATION_TIMESTAMP)
# Before a word: after a small letter or a digit, and before the last of several capitals.
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PUNCTUATION = re.compile(r"[^A-Za-z0-9]")


def static_sets(described: Mapping[str, EntitySet]) -> dict[str, StaticSet]:
    made = (
        _static_set("Lookup", _LOOKUP, described, _lookups, "The values of properties that have a fixed set of them."),
        _static_set("Field", _FIELD, described, _fields, "The properties of the entity sets above."),
    )
    return {entity_set.name: entity_set for entity_set in made}


def _static_set(
    name: str,
    names: tuple[str, ...],
    described: Mapping[str, EntitySet],
    rows: Callable[[Mapping[str, EntitySet]], Iterator[StaticRow]],
    description: str,
) -> StaticSet:
    key = names[0]
    properties = {
        title: EntityProperty(
            title, EdmType.DATE_TIME if title == MODIFICATION_TIMESTAMP else EdmType.STRING, {}, is_key=title == key
        )
        for title in names
    }
    build = cache(partial(_sorted, key, described, rows))
    return StaticSet(name, key, (), properties, build, description)


def _sorted(
    key: str, described: Mapping[str, EntitySet], rows: Callable[[Mapping[str, EntitySet]], Iterator[StaticRow]]
) -> tuple[StaticRow, ...]:
    return tuple(sorted(rows(described), key=lambda row: row.values[key]))


def _lookups(described: Mapping[str, EntitySet]) -> Iterator[StaticRow]:
    """Yield each value of each lookup once: properties of the same name have the same lookup."""
    values: dict[str, dict[str, None]] = {}
    groups: dict[str, set[str]] = {}
    for declared in chain.from_iterable(entity_set.properties.values() for entity_set in described.values()):
        if declared.lookup:
            values.setdefault(declared.name, {}).update(dict.fromkeys(declared.lookup))
            groups.setdefault(declared.name, set()).update(_groups(declared))
    for name, of_name in values.items():
        for value in of_name:
            legacy = _PUNCTUATION.sub("", value)
            row = (f"{name}!{legacy}", name, value, value, legacy, _declared_at())
            yield StaticRow(dict(zip(_LOOKUP, row, strict=True)), frozenset(groups[name]))


def _fields(described: Mapping[str, EntitySet]) -> Iterator[StaticRow]:
    for resource, entity_set in described.items():
        for name, declared in entity_set.properties.items():
            row = (f"{resource}!{name}", resource, name, _WORD_START.sub(" ", name), _declared_at())
            yield StaticRow(dict(zip(_FIELD, row, strict=True)), _groups(declared))


def _groups(declared: EntityProperty) -> frozenset[str]:
    return frozenset(column.group for column in declared.columns.values())


@cache
def _declared_at() -> str:
    """Return when the declarations of this version were written, the same in all processes of an installation."""
    folders = (Path(str(files(package))) for package in ("mappings", "service.reso"))
    newest = max(path.stat().st_mtime for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc")
    return str(to_timestamp(int(newest) * 1000))


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
        self._set = static_set
        for condition in conditions(expression):
            self._check(condition)
        self.holds = compile_filter(expression, self._compiled)

    def _check(self, condition: FieldCondition) -> None:
        name = condition.field
        if name not in self._set.properties:
            raise InvalidRequest.of(FILTER, f"{self._set.name} has no property {name!r}.")
        values: tuple[FilterLiteral, ...] = ()
        match condition:
            case FieldComparison(_, _, value):
                values = (value,)
            case InList(_, given):
                values = given
            case TextCondition(_, _, _, None) if not self._is_timestamp(name):
                pass
            case _:
                raise OptionNotImplemented(FILTER, f"this condition on {name}")
        try:
            for value in values:
                self._require_comparable(name, value)
        except UnsupportedComparison as fault:
            raise InvalidRequest.of(FILTER, f"{name} {fault}.") from None

    def _require_comparable(self, name: str, value: FilterLiteral) -> None:
        wanted = LiteralType.TIMESTAMP if self._is_timestamp(name) else LiteralType.TEXT
        if value.type not in {wanted, LiteralType.NULL}:
            raise UnsupportedComparison(f"is compared with {wanted}")
        if value.type is LiteralType.TIMESTAMP:
            _clock(value.text)

    def _is_timestamp(self, name: str) -> bool:
        return self._set.properties[name].edm.is_timestamp

    def _compiled(self, condition: FieldCondition) -> Predicate | bool:
        name = condition.field
        if isinstance(condition, TextCondition):
            test, text = _TESTS[condition.test], condition.text
            return lambda row: test(row[name], text)
        if not isinstance(condition, FieldComparison | InList):
            return False
        if self._is_timestamp(name):
            return compile_comparison(condition, lambda row: _clock(row[name]), lambda value: _clock(value.text))
        return compile_comparison(condition, itemgetter(name), attrgetter("text"))


@lru_cache(maxsize=1024)
def _clock(text: str) -> Decimal:
    return _timestamps.parse_number(text)


Row = dict[str, str]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class StaticPageSource:
    """The rows that a request selects, in order."""

    static_set: StaticSet
    selected: Sequence[Row]
    properties: tuple[EntityProperty, ...]
    is_descending: bool = False
    position_kinds = (SortKind.IDENTIFIER,)
    floor_event = 0
    searched = Searched(())

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.static_set.name

    async def rows(self, cursor: SkipToken, size: int) -> list[Row]:
        """Return the next rows after the position of a cursor."""
        if not cursor.position:
            return list(self.selected[:size])
        reached, key = str(cursor.position[0]), self.static_set.key
        after = [row for row in self.selected if row[key] != reached and (row[key] < reached) is self.is_descending]
        return after[:size]

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return self.position(self.selected[number - 1]) if len(self.selected) >= number else None

    async def count(self) -> int:
        """Return the total number of rows."""
        return len(self.selected)

    def position(self, row: Row) -> Position:
        return (row[self.static_set.key],)

    async def encode_rows(self, rows: Sequence[Row]) -> list[bytes]:
        """Return rows as JSON objects, in order."""
        names = [declared.name for declared in self.properties]
        return [_encode({name: row[name] for name in names}) async for row in in_turns(rows)]


async def query_static(call: RequestContext, static_set: StaticSet) -> StaticPageSource:
    """Return the rows that the query options select; raise InvalidRequest or OptionNotImplemented."""
    is_descending = _is_descending(call, static_set)
    rows = await select_static(call, static_set)
    properties = selected_properties(call, static_set, call.parameters[SELECT])
    return StaticPageSource(static_set, rows[::-1] if is_descending else rows, properties, is_descending)


async def select_static(call: RequestContext, static_set: StaticSet) -> list[Row]:
    """Return the rows that `$filter` selects; raise InvalidRequest or OptionNotImplemented."""
    rows, sent = static_set.visible(call.visibility.withheld), call.parameters[FILTER]
    if sent is None:
        return rows
    holds = StaticFilter(static_set, sent.expression).holds
    return [row async for row in in_turns(rows) if holds(row)]


def query_static_row(
    call: RequestContext, static_set: StaticSet, key: str, names: Sequence[str] | None
) -> StaticPageSource:
    """Return the row with a key, with some properties, None for all; raise InvalidRequest for an unknown one."""
    rows = [row for row in static_set.visible(call.visibility.withheld) if row[static_set.key] == key]
    return StaticPageSource(static_set, rows, selected_properties(call, static_set, names))


def _is_descending(call: RequestContext, static_set: StaticSet) -> bool:
    orders: Sequence[OrderBy] = call.parameters[ORDER_BY] or ()
    for order in orders:
        if order.name not in static_set.properties:
            raise InvalidRequest.of(ORDER_BY, f"{static_set.name} has no property {order.name!r}.")
    if orders and orders[0].name != static_set.key:
        raise OptionNotImplemented(ORDER_BY, f"an order by {orders[0].name} (possible by {static_set.key})")
    return bool(orders) and orders[0].is_descending
