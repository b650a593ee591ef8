"""EntityEvent: every change of a record that the key may read, deletions included, ordered by event number.

Each document has one event, that of its last change, as in the change feed. Deletions have one too, and so have moves
to a company that the key may not read. Only published changes are returned: `sequence` never exceeds the ledger.
Events are found by number through the ledger, by key through document ids.
"""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec
import orjson

from cluster.control_index import HEAD_ID, LedgerArchive, LedgerHead, Mark, Publication, archive_id
from mappings.resource import Resource
from mappings.stored_document import split_document_id
from service.background import in_turns
from service.errors import EngineUnavailable, InvalidRequest
from service.request_context import RequestContext
from service.reso.cost import Searched
from service.reso.filter.clauses import MATCH_ALL, MATCH_NONE, EqualityMatcher, Matcher, build_clause
from service.reso.filter.expression import (
    ComparisonOperator,
    FieldComparison,
    FilterExpression,
    FilterLiteral,
    Leaf,
    LiteralType,
    Negation,
    compared_literals,
    fold,
)
from service.reso.filter.value_matchers import MAX_INT64, ConstantMatcher, IntegerMatcher
from service.reso.ordering import Position, SkipToken, SortKind
from service.reso.protocol import FILTER, ORDER_BY, SELECT, EventsForgotten, entity_url, service_root_url
from service.reso.sets.declarations import ENTITY_SET_BY_RESOURCE
from service.reso.sets.edm_types import EdmType
from service.reso.sets.entity_rows import DocumentPosition, count_documents, find_moves, read_doc_values
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine
from service.search.query import Body, Clause, scope_clauses, spellings, terms
from service.search.responses import parse_hits

_CONCURRENT_READS = 16


class _PublicationColumns:
    """The publications of one resource, append-only: the sequence and the event number that each starts after."""

    def __init__(self) -> None:
        self.afters, self.bases = array("q"), array("q")

    def append(self, publication: Publication) -> None:
        self.afters.append(publication.after)
        self.bases.append(publication.base)


_ColumnsByAlias = dict[str, _PublicationColumns]


@dataclass(frozen=True)
class _PublicationRange:
    """The publications low to high - 1 of the columns; the last one ends at the sequence `upto`."""

    column: _PublicationColumns
    low: int
    high: int
    upto: int

    @property
    def after(self) -> int:
        return self.column.afters[self.low] if self.low < self.high else self.upto

    def number(self, sequence: int) -> int | None:
        at = bisect_left(self.column.afters, sequence, self.low, self.high) - 1
        return None if at < self.low else self.column.bases[at] + sequence - self.column.afters[at]

    def sequence_at(self, event: int) -> int | None:
        at = bisect_left(self.column.bases, event, self.low, self.high) - 1
        if at < self.low:
            return None
        end = self.column.afters[at + 1] if at + 1 < self.high else self.upto
        return min(end, self.column.afters[at] + event - self.column.bases[at])


class _ResourceEvents:
    """All published events of one resource, the recent part first."""

    def __init__(
        self, archived: _PublicationColumns | None, recent: _PublicationColumns | None, begin: int, upto: int
    ) -> None:
        self.upto = upto
        self._parts: list[_PublicationRange] = []
        for column in filter(None, (recent, archived)):
            high = len(column.bases)
            self._parts.append(_PublicationRange(column, bisect_left(column.bases, begin, 0, high), high, upto))
            upto = self._parts[-1].after

    def number(self, sequence: int) -> int | None:
        found = (part.number(sequence) for part in self._parts)
        return next((number for number in found if number is not None), None)

    def sequence_at(self, event: int) -> int:
        found = (part.sequence_at(event) for part in self._parts)
        return next((sequence for sequence in found if sequence is not None), 0)


@dataclass(frozen=True)
class EventLedger:
    """Maps changes to event numbers, as the indexer has written them (decision 13).

    A number never changes; a later ledger may only repeat a change under a new one.

    An alias has no prefix (`Resource.alias`). `end` is the highest number assigned, 0 if none is.
    """

    end: int = 0
    head: LedgerHead = field(default_factory=LedgerHead, repr=False)
    _events: Mapping[str, _ResourceEvents] = field(default_factory=dict, repr=False)

    def event_number(self, alias: str, sequence: int) -> int | None:
        """Return the event number of a sequence, None if it is not published yet."""
        events = self._events.get(alias)
        return events.number(sequence) if events is not None and 0 < sequence <= events.upto else None

    def sequence_at(self, alias: str, event: int) -> int:
        """Return the highest sequence whose number is at most `event`, 0 if there is none.

        The events after N are thus, in each resource, the sequences from `sequence_at(alias, N)`, excluded, to
        `published_sequence(alias)`, included.
        """
        events = self._events.get(alias)
        return 0 if events is None else events.sequence_at(event)

    def published_sequence(self, alias: str) -> int:
        """Return the last published sequence; nothing at or below it becomes visible later."""
        events = self._events.get(alias)
        return 0 if events is None else events.upto

    def horizon(self, marks: Mapping[str, Mark | None]) -> int:
        """Return the event before which deletions may be missing.

        A reader whose last event is below it must compare its keys with the records. It is 0 until tombstones are
        pruned (`Mark.forgotten`) or a resource is rolled back. Marks are updated before the pruning: pass marks that
        were read after the search (`CachedValue.refresh`).
        """
        return max([self.head.void, *(self._forgotten(alias, mark) for alias, mark in marks.items() if mark)])

    def _forgotten(self, alias: str, mark: Mark) -> int:
        return self.event_number(alias, min(mark.forgotten, self.published_sequence(alias))) or 0


def build_ledger(head: LedgerHead, archived: Mapping[str, _PublicationColumns]) -> EventLedger:
    recent = _append_publications(head.publications, {})
    events = {
        alias: _ResourceEvents(archived.get(alias), recent.get(alias), shard_scope.begin, shard_scope.upto)
        for alias, shard_scope in head.reaches.items()
    }
    return EventLedger(head.end, head, events)


def _append_publications(publications: Iterable[Publication], into: _ColumnsByAlias) -> _ColumnsByAlias:
    for publication in publications:
        into.setdefault(publication.alias, _PublicationColumns()).append(publication)
    return into


class EventLedgerReader:
    """Reads the ledger: each archive once, the head every time."""

    def __init__(self, engine: SearchEngine, control_index: str) -> None:
        self._engine = engine
        self._index = control_index
        self._ledger = EventLedger()
        self._first = self._next = 0
        self._archived: _ColumnsByAlias = {}

    async def read(self) -> EventLedger:
        """Return the current ledger, empty if nothing is published yet; raise ApiError."""
        document = await self._engine.get_document(self._index, HEAD_ID)
        head = LedgerHead() if document is None else msgspec.convert(document, LedgerHead)
        if head != self._ledger.head:
            await self._read_archives(head)
            self._ledger = build_ledger(head, self._archived)
        return self._ledger

    async def _read_archives(self, head: LedgerHead) -> None:
        """Read the archives that are not loaded yet; those before the first are void, as are all of a lost ledger."""
        known = self._ledger.head
        if (head.first, head.control) != (self._first, known.control) or head.end < known.end:
            self._archived, self._first, self._next = {}, head.first, head.first
        while self._next < head.archived:
            numbers = range(self._next, min(self._next + _CONCURRENT_READS, head.archived))
            for archive in await asyncio.gather(*(self._archive(number) for number in numbers)):
                _append_publications(archive.publications, self._archived)
            self._next = numbers.stop

    async def _archive(self, number: int) -> LedgerArchive:
        document = await self._engine.get_document(self._index, archive_id(number))
        if document is None:
            raise EngineUnavailable("The event ledger was replaced while it was read.")
        return msgspec.convert(document, LedgerArchive)


class Events(CachedValue[EventLedger]):
    """The ledger, as read last."""


@dataclass(frozen=True)
class EventNumberMatcher(IntegerMatcher):
    """The event number: in each resource a range of sequences."""

    ledger: EventLedger = field(kw_only=True, hash=False)
    alias: str = field(kw_only=True)

    def match_values(self, values: Sequence[str]) -> Clause:
        numbers = [int(number) for number in map(_clamped, values) if number == number.to_integral_value()]
        pairs = [(self._sequence(number), self._sequence(number - 1)) for number in numbers]
        sequences = [sequence for sequence, previous in pairs if sequence > previous]
        return terms(self.name, sequences) if sequences else MATCH_NONE

    def match_range(self, operator: ComparisonOperator, value: str) -> Clause:
        bound = self._sequence(_exclusive_bound(operator, value))
        return {
            "range": {self.name: {"gt" if operator in {ComparisonOperator.GT, ComparisonOperator.GE} else "lte": bound}}
        }

    def _sequence(self, number: int) -> int:
        return self.ledger.sequence_at(self.alias, number)


# A filter is built once for each of five resources; it has fewer values than this.
_REMEMBERED_NUMBERS = 512


@lru_cache(_REMEMBERED_NUMBERS)
def _clamped(text: str) -> Decimal:
    """Return a number, clamped to just outside the range of event numbers."""
    return max(Decimal(-1), min(Decimal(MAX_INT64), Decimal(text)))


@lru_cache(_REMEMBERED_NUMBERS)
def _exclusive_bound(operator: ComparisonOperator, text: str) -> int:
    """Return the greatest whole number that `gt` and `ge` exclude, or that `lt` and `le` include."""
    number = _clamped(text)
    if operator in {ComparisonOperator.GT, ComparisonOperator.LE}:
        return int(number.to_integral_value("ROUND_FLOOR"))
    return int(number.to_integral_value("ROUND_CEILING")) - 1


@dataclass(frozen=True)
class EventKeyMatcher(EqualityMatcher):
    """The key of the changed record; `moves_by_key` holds the ids of move documents by key."""

    moves_by_key: Mapping[str, Sequence[str]] = field(hash=False)

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match the events of records with one of these keys."""
        keys = [key for value in values for key in spellings(value)]
        names = [name for key in keys for name in (key, *self.moves_by_key.get(key, ())) if name]
        return terms("_id", names) if names else MATCH_NONE


def filter_lower_bound(expression: FilterExpression, name: str) -> int:
    """Return the largest number that a filter certainly excludes by `gt` or `ge` of a property, 0 if none.

    It is the position from which a reader continues.
    """

    def of_leaf(leaf: Leaf) -> int:
        match leaf.condition if isinstance(leaf, Negation) else leaf:
            case FieldComparison(field, operator, FilterLiteral(LiteralType.NUMBER, text)) if field == name:
                effective = operator.complement if isinstance(leaf, Negation) else operator
                if effective in {ComparisonOperator.GT, ComparisonOperator.GE}:
                    return max(0, _exclusive_bound(effective, text))
        return 0

    # mypy finds no overload of max and min themselves.
    return fold(expression, of_leaf, lambda bounds: max(bounds), lambda bounds: min(bounds))  # noqa: PLW0108


EVENT_ENTITY_SET = "EntityEvent"
SEQUENCE_PROPERTY, RESOURCE_PROPERTY, KEY_PROPERTY, URL_PROPERTY = (
    "EntityEventSequence",
    "ResourceName",
    "ResourceRecordKey",
    "ResourceRecordUrl",
)


class EntityEvent(NamedTuple):
    """A change: its event number, and the key of the record."""

    number: int
    resource: Resource
    key: str


@dataclass(frozen=True)
class EventPageSource:
    """The events that a request selects.

    `clauses` are the filter's clauses by resource; `lower_bound` is the number after which the filter starts, 0 for the
    first event; `names` are the selected properties.
    """

    call: RequestContext
    ledger: EventLedger
    clauses: Mapping[Resource, Clause]
    lower_bound: int
    is_descending: bool
    names: tuple[str, ...]
    name = EVENT_ENTITY_SET
    position_kinds = (SortKind.LONG,)

    @property
    def floor_event(self) -> int:
        """The last event: a reader without a lower bound never needs deletions from before it started."""
        return 0 if self.lower_bound else self.ledger.end

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return Searched([(resource, (clause,)) for resource, clause in self.clauses.items()])

    async def rows(self, cursor: SkipToken, size: int) -> list[EntityEvent]:
        """Return the next events after the position of a cursor; raise EventsForgotten."""
        events = await self._read(cursor.position, size)
        await self._refuse_expired(cursor)
        return events

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` events, None if there are fewer.

        Each resource is searched once: Elasticsearch sorts all of its events for each search.
        """
        parts = await asyncio.gather(*(self._numbers(resource, number) for resource in self.clauses))
        numbers = sorted((one for part in parts for one in part), reverse=self.is_descending)
        return (numbers[number - 1],) if len(numbers) >= number else None

    async def _numbers(self, resource: Resource, size: int) -> list[int]:
        """Return the numbers of the first events of a resource."""
        if not (upto := self.ledger.published_sequence(resource.alias)):
            return []
        body = self._body(resource, 0, upto, size) | {"stored_fields": "_none_"}
        hits = parse_hits(await self.call.search(resource, body, upto))
        read = partial(self.ledger.event_number, resource.alias)
        return [number async for hit in in_turns(hits) if (number := read(hit["sort"][0])) is not None]

    async def count(self) -> int:
        """Return the total number of events."""
        return sum(await asyncio.gather(*map(self._count_resource, self.clauses)))

    def position(self, row: EntityEvent) -> Position:
        return (row.number,)

    async def encode_rows(self, rows: Sequence[EntityEvent]) -> list[bytes]:
        """Return events as JSON objects."""
        for resource in {event.resource for event in rows}:
            keys = [event.key for event in rows if event.resource is resource]
            if self.call.sent is not None:
                self.call.sent.events(resource, keys, self.ledger.published_sequence(resource.alias))
        return [self._encode_event(event) async for event in in_turns(rows)]

    def _encode_event(self, event: EntityEvent) -> bytes:
        entity = ENTITY_SET_BY_RESOURCE[event.resource].name
        url = entity_url(service_root_url(self.call), entity, event.key)
        values = {
            SEQUENCE_PROPERTY: event.number,
            RESOURCE_PROPERTY: entity,
            KEY_PROPERTY: event.key,
            URL_PROPERTY: url,
        }
        return orjson.dumps({name: values[name] for name in self.names})

    async def _read(self, position: Position, size: int) -> list[EntityEvent]:
        parts = await asyncio.gather(*(self._read_resource(resource, position, size) for resource in self.clauses))
        events = sorted((event for part in parts for event in part), key=self.position, reverse=self.is_descending)
        return events[:size]

    async def _read_resource(self, resource: Resource, position: Position, size: int) -> list[EntityEvent]:
        alias = resource.alias
        low, high = 0, self.ledger.published_sequence(alias)
        if position and self.is_descending:
            high = self.ledger.sequence_at(alias, int(position[0] or 0) - 1)
        elif position:
            low = self.ledger.sequence_at(alias, int(position[0] or 0))
        if low >= high:
            return []
        body = self._body(resource, low, high, size)
        upto = self.ledger.published_sequence(alias)
        documents = await read_doc_values(self.call, resource, body, DocumentPosition, upto)
        numbered = ((self.ledger.event_number(alias, sequence), name) for name, sequence in documents)
        return [
            EntityEvent(number, resource, split_document_id(name)[1]) for number, name in numbered if number is not None
        ]

    async def _count_resource(self, resource: Resource) -> int:
        if not (upto := self.ledger.published_sequence(resource.alias)):
            return 0
        return await count_documents(self.call, resource, self._query(resource, 0, upto), upto)

    def _body(self, resource: Resource, low: int, high: int, size: int) -> Body:
        order = {"sort": [{"sequence": "desc" if self.is_descending else "asc"}]}
        return {"size": size, "track_total_hits": False, "query": self._query(resource, low, high), **order}

    def _query(self, resource: Resource, low: int, high: int) -> Clause:
        published: Clause = {"range": {"sequence": {"gt": low, "lte": high}}}
        return {"bool": {"filter": [*scope_clauses(self.call.scope), published, self.clauses[resource]]}}

    async def _refuse_expired(self, cursor: SkipToken) -> None:
        """Raise EventsForgotten if deletions after the reader's position are no longer stored, or if no event has it.

        It is checked after the search: marks are updated before the first tombstone is pruned.
        """
        reached = 0 if self.is_descending or not cursor.position else int(cursor.position[0] or 0)
        if not (start := max(self.lower_bound, reached)):
            return
        services = self.call.services
        names = [resource.alias for resource in self.clauses]
        marks = await asyncio.gather(*(services.indices[resource].mark.refreshed() for resource in self.clauses))
        ledger = await services.of(Events).refreshed()
        horizon = ledger.horizon(dict(zip(names, marks, strict=True)))
        if max(start, cursor.floor_event) < horizon or start > ledger.end:
            raise EventsForgotten(start, horizon, ledger.end)


EVENT_PROPERTIES = {
    SEQUENCE_PROPERTY: EdmType.INT64,
    RESOURCE_PROPERTY: EdmType.STRING,
    KEY_PROPERTY: EdmType.STRING,
    URL_PROPERTY: EdmType.STRING,
}
FILTERABLE_PROPERTIES = (SEQUENCE_PROPERTY, RESOURCE_PROPERTY, KEY_PROPERTY)
_EVENT_RESOURCES = tuple(ENTITY_SET_BY_RESOURCE)


async def query_events(call: RequestContext) -> EventPageSource:
    """Return the events that the query options select; raise InvalidRequest."""
    sent = call.parameters[FILTER]
    expression = None if sent is None else sent.expression
    ledger = await _current_ledger(call)
    clauses = await _clauses(call, ledger, expression)
    bound = 0 if expression is None else filter_lower_bound(expression, SEQUENCE_PROPERTY)
    return EventPageSource(call, ledger, clauses, bound, _is_descending(call), _selected_names(call))


async def _current_ledger(call: RequestContext) -> EventLedger:
    """Return the ledger; raise ApiError if it cannot be renewed, or if data that it numbers were replaced."""
    ledger = await call.services.of(Events).get_renewed()
    for resource in _EVENT_RESOURCES:
        call.services.engine.require_continued(call.services.indices[resource].alias)
    return ledger


async def query_event(call: RequestContext, number: str) -> EventPageSource:
    ledger = await _current_ledger(call)
    condition = FieldComparison(SEQUENCE_PROPERTY, ComparisonOperator.EQ, FilterLiteral(LiteralType.NUMBER, number))
    return EventPageSource(
        call, ledger, await _clauses(call, ledger, condition), 0, is_descending=False, names=_selected_names(call)
    )


async def _clauses(
    call: RequestContext, ledger: EventLedger, expression: FilterExpression | None
) -> dict[Resource, Clause]:
    if expression is None:
        return dict.fromkeys(_EVENT_RESOURCES, MATCH_ALL)
    clauses = await asyncio.gather(*(_clause(call, ledger, expression, resource) for resource in _EVENT_RESOURCES))
    return dict(zip(_EVENT_RESOURCES, clauses, strict=True))


async def _clause(
    call: RequestContext, ledger: EventLedger, expression: FilterExpression, resource: Resource
) -> Clause:
    keys = {name for literal in compared_literals(expression, KEY_PROPERTY) for name in spellings(literal.text)}
    moves = await find_moves(call, resource, keys) if keys and ledger.published_sequence(resource.alias) else {}
    matchers: dict[str, Matcher] = {
        SEQUENCE_PROPERTY: EventNumberMatcher("sequence", ledger=ledger, alias=resource.alias),
        RESOURCE_PROPERTY: ConstantMatcher(ENTITY_SET_BY_RESOURCE[resource].name),
        KEY_PROPERTY: EventKeyMatcher(moves),
    }

    def matcher_for(name: str) -> Matcher:
        if name not in matchers:
            reason = "cannot be used in $filter" if name in EVENT_PROPERTIES else "is not a property of EntityEvent"
            raise InvalidRequest.of(FILTER, f"{name} {reason}; these can: {', '.join(FILTERABLE_PROPERTIES)}.")
        return matchers[name]

    return build_clause(expression, matcher_for)


def _is_descending(call: RequestContext) -> bool:
    orders = call.parameters[ORDER_BY] or ()
    for order in orders:
        if order.name != SEQUENCE_PROPERTY:
            known = order.name in EVENT_PROPERTIES
            reason = "cannot be used in $orderby" if known else f"is not a property of {EVENT_ENTITY_SET}"
            raise InvalidRequest.of(ORDER_BY, f"{order.name} {reason}; {SEQUENCE_PROPERTY} can.")
    return any(order.is_descending for order in orders)


def _selected_names(call: RequestContext) -> tuple[str, ...]:
    names = call.parameters[SELECT]
    if names is None:
        return tuple(EVENT_PROPERTIES)
    if unknown := [name for name in names if name not in EVENT_PROPERTIES]:
        raise InvalidRequest.of(SELECT, f"{EVENT_ENTITY_SET} has no property {unknown[0]!r}.")
    return tuple(name for name in EVENT_PROPERTIES if name == SEQUENCE_PROPERTY or name in names)
