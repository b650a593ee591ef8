"""The rows of an entity set: the merged records of its resources, each key once.

If two resources have the same key, only the record of the first is a row, whatever the filter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from mappings.fields import View
from mappings.resource import Resource
from service.http.responses import JsonBytes
from service.records.projection import Variant
from service.request_context import RequestContext
from service.reso.entity_sets.distinct_count import count_distinct
from service.reso.entity_sets.doc_values import count_documents, read_doc_values
from service.reso.entity_sets.entity_encoder import EntityHit, decode_raw_hits
from service.reso.entity_sets.ordering import BY_KEY, SortOrder
from service.reso.entity_sets.property_columns import EntityHeader
from service.reso.entity_sets.sort_fields import SortValue
from service.reso.filter.matchers import MATCH_NONE
from service.reso.paging.skip_token import Position
from service.search.query import Selection, terms
from service.search.responses import parse_hits

Decode = Callable[[Resource, bytes], list[EntityHit]]


def _decode_to_text(_: Resource, response: bytes) -> list[EntityHit]:
    return decode_raw_hits(response)


class _Identifier(NamedTuple):
    """The doc values of a position."""

    id: str


class EntityRow(NamedTuple):
    """A record, or the position of one, which has no source."""

    position: Position
    resource: Resource
    id: str
    source: EntityHeader | None = None

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
        return await self._merged(partial(self._read, decode or _decode_to_text), after, size)

    def variant(self, resource: Resource) -> Variant:
        """Return the variant of the records that properties are read from."""
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
        rows = await self._merged(self._read_positions, (), number)
        return rows[-1].position if len(rows) == number else None

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
        return [
            self._row(selection, hit.sort, hit.source.id, hit.source) for hit in decode(selection.resource, response)
        ]

    async def _read_positions(self, selection: Selection, after: Position, size: int) -> list[EntityRow]:
        body = self.ordering.search_body(selection, after, size)
        fields = {"stored_fields": "_none_", "docvalue_fields": ["id"]}
        hits = parse_hits(await self.call.search(selection.resource, body | fields))
        return [self._row(selection, hit["sort"], hit["fields"]["id"][0]) for hit in hits]

    def _row(
        self, selection: Selection, sort: Sequence[SortValue], identifier: str, source: EntityHeader | None = None
    ) -> EntityRow:
        position = self.ordering.position(selection.resource, sort, identifier)
        return EntityRow(position, selection.resource, identifier, source)
