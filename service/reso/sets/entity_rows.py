"""The rows of an entity set: the merged records of its resources, each key once.

If two resources have the same key, only the record of the first is a row, whatever the filter. Positions, counts and
moves are read from search fields, without loading a record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from mappings.fields import View
from mappings.resource import Resource
from mappings.stored_document import bucket, identifier_from_feed_key, split_document_id
from service.errors import InvalidRequest
from service.http.responses import JsonBytes
from service.projection import Variant
from service.request_context import RequestContext
from service.reso.cost import Searched, charge_looked_up
from service.reso.filter.clauses import MATCH_NONE
from service.reso.ordering import BY_KEY, Position, SortOrder, SortValue
from service.reso.protocol import FILTER
from service.reso.sets.entity_encoder import EntityHit, decode_raw_hits
from service.reso.sets.entity_set import EntityHeader
from service.reso.sets.skipped_rows import SortedRecords, last_of, position_after
from service.search.query import Body, Clause, Selection, scope_clauses, term, terms
from service.search.responses import hits_decoder, hits_generation, parse_hits, total_hits

DocValuesT = TypeVar("DocValuesT", bound=NamedTuple)

_MAX_CANDIDATES = 10_000
# To find where they end takes as long as to load them.
_FEW_ROWS = 20


class DocumentPosition(NamedTuple):
    """The `_id` of a document and its sequence."""

    id: str
    sequence: int


async def read_doc_values(
    call: RequestContext, resource: Resource, body: Body, row_type: type[DocValuesT], sequence: int | None = None
) -> list[DocValuesT]:
    """Search, and return doc values of the hits without loading the records.

    `row_type` is a named tuple of search fields; `sequence` is as for `RequestContext.search`.
    """
    fields = {"stored_fields": "_none_", "docvalue_fields": list(row_type._fields)}
    response = await call.search(resource, body | fields, sequence)
    return [row_type._make(hit["fields"][name][0] for name in row_type._fields) for hit in parse_hits(response)]


async def count_documents(call: RequestContext, resource: Resource, query: Clause, sequence: int | None = None) -> int:
    """Return the number of matching documents; `sequence` is as for `RequestContext.search`."""
    return total_hits(await call.search(resource, {"size": 0, "track_total_hits": True, "query": query}, sequence))


async def find_moves(call: RequestContext, resource: Resource, keys: Collection[str]) -> dict[str, list[str]]:
    """Return by key the ids of the move documents of records that have left a company of the scope.

    Their ids contain a company that the filter does not name, so they are searched by the buckets of the keys, each of
    which holds few tombstones.
    """
    candidates = [
        *scope_clauses(call.scope),
        term("deleted", value=True),
        terms("bucket", sorted(set(map(bucket, keys)))),
    ]
    body: Body = {
        "size": _MAX_CANDIDATES,
        "track_total_hits": False,
        "query": {"bool": {"filter": candidates}},
        "sort": ["sequence"],
    }
    documents = await read_doc_values(call, resource, body, DocumentPosition)
    if len(documents) == _MAX_CANDIDATES:
        raise InvalidRequest.of(FILTER, "compares too many keys: send fewer at a time.")
    moves: dict[str, list[str]] = {}
    for document in documents:
        company, key = split_document_id(document.id)
        if company and key in keys:
            moves.setdefault(key, []).append(document.id)
    return moves


class _Identifier(NamedTuple):
    """The identifier of a record alone."""

    id: str


# As many as are parsed in some 5 ms. Few large searches take Elasticsearch half the time of many small ones.
_KEYS_OF_A_BATCH, _NUMBERS_OF_A_BATCH = 10_000, 3_000


class _CountedHit(msgspec.Struct, gc=False):
    sort: tuple[str]
    fields: dict[str, list[Any]] = {}


_decode_counted = hits_decoder(_CountedHit)


class Counted(NamedTuple):
    """A search field, and what a record counts for by its values there."""

    field: str
    number: Callable[[Sequence[Any]], int]


async def count_distinct(
    call: RequestContext, selection: Selection, first: Resource, counted_by: Counted | None = None
) -> int:
    """Return the number of selected records whose key no record of `first` in the same scope has.

    With `counted_by` return the sum of what they count for.
    """
    total, batch = 0, await _next_batch(call, selection, counted_by, {})
    if len(batch) == _batch_size(counted_by):
        await charge_looked_up(call, await count_documents(call, selection.resource, selection.query()))
    while batch:
        # Read the next keys while these are looked up.
        known, following = await asyncio.gather(
            _count_known(call, first, counted_by, batch), _next_batch(call, selection, counted_by, batch)
        )
        total += sum(batch.values()) - known
        batch = following
    return total


async def _next_batch(
    call: RequestContext, selection: Selection, counted_by: Counted | None, before: dict[str, int]
) -> dict[str, int]:
    """Return the next feed keys after a batch with what each counts for, none if it was the last.

    They are read as sort values, in index order: reading a doc value as well doubles the search time.
    """
    size = _batch_size(counted_by)
    if 0 < len(before) < size:
        return {}
    following: Clause = {"range": {"feed_key": {"gt": next(reversed(before), "")}}}
    body: Body = {
        "size": size,
        "track_total_hits": False,
        "query": selection.filtered(following).query(),
        "sort": ["feed_key"],
        "stored_fields": "_none_",
    }
    if counted_by is not None:
        body["docvalue_fields"] = [counted_by.field]
    hits = _decode_counted(await call.search(selection.resource, body))
    if counted_by is None:
        return dict.fromkeys((hit.sort[0] for hit in hits), 1)
    return {hit.sort[0]: counted_by.number(hit.fields[counted_by.field]) for hit in hits}


def _batch_size(counted_by: Counted | None) -> int:
    return _KEYS_OF_A_BATCH if counted_by is None else _NUMBERS_OF_A_BATCH


async def _count_known(call: RequestContext, first: Resource, counted_by: Counted | None, batch: dict[str, int]) -> int:
    """Return what the feed keys count for whose record the first resource has, too."""
    numbers = {identifier_from_feed_key(key): number for key, number in batch.items()}
    query = call.selection(first, (terms("_id", numbers),)).query()
    if not counted_by:
        return await count_documents(call, first, query)
    body: Body = {"size": len(numbers), "track_total_hits": False, "query": query}
    return sum(numbers[row.id] for row in await read_doc_values(call, first, body, _Identifier))


Decode = Callable[[Resource, bytes], Awaitable[list[EntityHit]]]


async def _decode_raw(_: Resource, response: bytes) -> list[EntityHit]:
    return decode_raw_hits(response)


class EntityRow(NamedTuple):
    """A record, or the position of one, which has no source, with the doc values that are asked for.

    `generation` is the index of a record.
    """

    position: Position
    resource: Resource
    id: str
    source: EntityHeader | None = None
    doc_values: Mapping[str, Sequence[Any]] = {}
    generation: str = ""

    @property
    def record(self) -> Any:
        """The record as the source was decoded: JSON text, or an entity."""
        return self.source.record  # type: ignore[union-attr]


_Read = Callable[[Selection, Position, int], Awaitable[list["EntityRow"]]]


@dataclass(frozen=True)
class EntityRecords:
    """The selections of a request, one for each resource, the first taking precedence, and their order."""

    call: RequestContext
    selections: tuple[Selection, ...]
    ordering: SortOrder

    async def rows(self, after: Position, size: int, decode: Decode | None = None) -> list[EntityRow]:
        """Return the next rows after a position; `decode` decodes a search response, by default to JSON text."""
        return await self._merged(partial(self._read, decode or _decode_raw), after, size)

    async def page(self, after: Position, size: int, decode: Decode | None = None) -> list[EntityRow]:
        """Return the same as `rows`, without loading records of two resources that are behind the last row."""
        rows: list[EntityRow] = []
        while (missing := size - len(rows)) and (end := await self._last_of(missing, after)) is not None:
            upto = tuple(self.ordering.up_to(selection, end) for selection in self.selections)
            rows += await replace(self, selections=upto).rows(after, missing, decode)
            after = end
        return rows + await self.rows(after, missing, decode) if missing else rows

    async def _last_of(self, number: int, after: Position) -> Position | None:
        """Return the position of the last of `number` records, None if there are fewer, or of one resource alone.

        Rows may be fewer: a record of the second resource that the first one has is none.
        """
        searched = [selection for selection in self.selections if MATCH_NONE not in selection.clauses]
        if len(searched) < 2 or number < _FEW_ROWS:
            return None
        read = (SortedRecords.first(self.call, selection, self.ordering, number, after) for selection in searched)
        return last_of(number, *await asyncio.gather(*read))

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        clauses = [(selection.resource, selection.clauses) for selection in self.selections]
        return Searched(clauses, ordered_by=len(self.ordering.keys))

    def variant(self, resource: Resource) -> Variant:
        return self.call.variant(resource, View.INDEX, all_flags=True)

    def shown(self, rows: Sequence[EntityRow]) -> list[JsonBytes]:
        """Return the records of rows that are JSON text, in order, without what the key may not see."""
        shown: dict[str, JsonBytes] = {}
        for resource in {row.resource for row in rows}:
            own = [row for row in rows if row.resource is resource]
            records = self.variant(resource).encode([row.record for row in own])
            shown |= zip((row.id for row in own), records, strict=True)
        return [shown[row.id] for row in rows]

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        first, *later = await asyncio.gather(
            *(SortedRecords.first(self.call, selection, self.ordering, number) for selection in self.selections)
        )
        if later:
            [second] = later
            return await position_after(number, first, second, self._known_before)
        return first.position(number - 1) if len(first.found) == number else None

    async def positions(self, after: Position, size: int, field: str) -> list[EntityRow]:
        """Return the next positions after another one, with the doc values of a search field."""
        return await self._merged(partial(self._read_positions, field=field), after, size)

    async def count(self) -> int:
        """Return the total number of rows."""
        first, *later = self.selections
        later = [selection for selection in later if MATCH_NONE not in selection.clauses]
        of_first = count_documents(self.call, first.resource, first.query())
        return sum(
            await asyncio.gather(
                of_first, *(count_distinct(self.call, selection, first.resource) for selection in later)
            )
        )

    async def _merged(self, read: _Read, after: Position, size: int) -> list[EntityRow]:
        parts = await asyncio.gather(
            *(self._read_unique(read, selection, after, size) for selection in self.selections)
        )
        rows = [row for part in parts for row in part]
        return [rows[index] for index in self.ordering.sorted_indices([row.position for row in rows])[:size]]

    async def _read_unique(self, read: _Read, selection: Selection, after: Position, size: int) -> list[EntityRow]:
        """Return the next rows of a resource without keys that the first resource has."""
        rows: list[EntityRow] = []
        if MATCH_NONE in selection.clauses:
            return rows
        while (missing := size - len(rows)) > 0:
            page = await read(selection, after, missing)
            known = await self._known_before(selection, [row.id for row in page])
            rows += [row for row in page if row.id not in known]
            if len(page) < missing:
                break
            after = page[-1].position
        return rows

    async def _known_before(self, selection: Selection, identifiers: Sequence[str]) -> Collection[str]:
        """Return the identifiers that the first resource has in the scope, matching the filter or not."""
        first = self.selections[0]
        if selection is first or not identifiers:
            return frozenset()
        everything = self.call.selection(first.resource, (terms("_id", identifiers),))
        body = BY_KEY.search_body(everything, (), len(identifiers))
        return {row.id for row in await read_doc_values(self.call, first.resource, body, _Identifier)}

    async def _read(self, decode: Decode, selection: Selection, after: Position, size: int) -> list[EntityRow]:
        response = await self.call.search(selection.resource, self.ordering.search_body(selection, after, size))
        hits, generation = await decode(selection.resource, response), hits_generation(response)
        if self.variant(selection.resource).hides_addresses:
            for hit in hits:
                hit.source.hide_history()
        return [self._row(selection, hit.sort, hit.source.id, hit.source, generation) for hit in hits]

    async def _read_positions(
        self, selection: Selection, after: Position, size: int, field: str = ""
    ) -> list[EntityRow]:
        body = self.ordering.search_body(selection, after, size)
        fields = {"stored_fields": "_none_", "docvalue_fields": ["id", field] if field else ["id"]}
        hits = parse_hits(await self.call.search(selection.resource, body | fields))
        return [
            self._row(selection, hit["sort"], hit["fields"]["id"][0])._replace(doc_values=hit["fields"]) for hit in hits
        ]

    def _row(
        self,
        selection: Selection,
        sort: Sequence[SortValue],
        identifier: str,
        source: EntityHeader | None = None,
        generation: str = "",
    ) -> EntityRow:
        position = self.ordering.position(selection.resource, sort, identifier)
        return EntityRow(position, selection.resource, identifier, source, generation=generation)
