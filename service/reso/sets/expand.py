"""Entities with the related entities that `$expand` names: children from the record itself, others by one search.

All are of one build: if indices were replaced between the searches, they are repeated.

Related entities are subject to the scope and the permissions of the key, as in their own entity sets: a navigation
property that leads to a record that the key may not read is null, like one that leads nowhere.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import orjson

from mappings.resource import Resource
from service.background import batches_in_turns, in_turns
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.cost import Searched
from service.reso.ordering import BY_KEY, Position, SkipToken, SortKind
from service.reso.protocol import EXPAND
from service.reso.query_options import ExpandItem
from service.reso.sets.child_query import encode_children
from service.reso.sets.child_sets import ChildSet
from service.reso.sets.declarations import Navigation, declared_navigations, navigations
from service.reso.sets.entity_query import EntityPageSource, selected_properties
from service.reso.sets.entity_rows import EntityRecords, EntityRow
from service.reso.sets.entity_set import EntityProperty, EntitySet
from service.search.placement import NoLongerServed
from service.search.query import terms

# Rows that are encoded at once: with all expansions some 2 ms.
_ROWS_OF_A_TURN = 10
_MAX_ATTEMPTS = 3
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, eq=False)
class Expansion:
    """A navigation property, and the properties of its entities."""

    navigation: Navigation
    properties: tuple[EntityProperty, ...]


class ExpandedRow(NamedTuple):
    """A row, and the rows of other entity sets that it names, by navigation property."""

    row: EntityRow
    linked: Mapping[str, EntityRow]


@dataclass(frozen=True)
class ExpandedPageSource:
    """The entities that a request selects, with related ones."""

    call: RequestContext
    source: EntityPageSource
    expansions: tuple[Expansion, ...]
    floor_event = 0

    @property
    def name(self) -> str:
        """The name of the entity set."""
        return self.source.name

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return self.source.position_kinds

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return await self.source.position_after(number)

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return self.source.searched

    async def count(self) -> int:
        """Return the total number of rows."""
        return await self.source.count()

    def position(self, row: ExpandedRow) -> Position:
        return self.source.position(row.row)

    async def rows(self, cursor: SkipToken, size: int) -> list[ExpandedRow]:
        """Return the next rows after the position of a cursor, with the records that they name; raise ApiError."""
        for _ in range(_MAX_ATTEMPTS):
            rows = await self._read_rows(cursor, size)
            if await self._are_live(rows):
                return rows
        raise NoLongerServed(f"Indices were replaced during each of {_MAX_ATTEMPTS} attempts to read what is expanded.")

    async def _are_live(self, rows: Sequence[ExpandedRow]) -> bool:
        """Whether the indices that rows are from are still live, so that they were live together."""
        if not rows or all(expansion.navigation.children is not None for expansion in self.expansions):
            return True
        read = {(row.resource, row.generation) for each in rows for row in (each.row, *each.linked.values())}
        aliases = {self.call.services.indices[resource].alias for resource, _ in read}
        _, live = await self.call.services.engine.get_json(f"/{','.join(sorted(aliases))}?filter_path=*.aliases")
        return {generation for _, generation in read} <= (live or {}).keys()

    async def _read_rows(self, cursor: SkipToken, size: int) -> list[ExpandedRow]:
        rows = await self.source.records.page(cursor.position, size)
        links = [expansion.navigation for expansion in self.expansions if expansion.navigation.key_property]
        named = [self._keys(row, links) async for row in in_turns(rows)]
        sets = {link.target.name: link.target for link in links}
        read = await asyncio.gather(*(self._read(target, links, named) for target in sets.values()))
        found = dict(zip(sets, read, strict=True))
        return [ExpandedRow(row, _linked_rows(links, keys, found)) for row, keys in zip(rows, named, strict=True)]

    async def encode_rows(self, rows: Sequence[ExpandedRow]) -> list[bytes]:
        """Return rows as JSON objects, in order."""
        linked = {
            expansion: await self._linked(expansion, rows)
            for expansion in self.expansions
            if expansion.navigation.children is None
        }
        expanded: list[bytes] = []
        async for few in batches_in_turns(rows, _ROWS_OF_A_TURN):
            expanded += self._encode(few, linked)
        return expanded

    def _encode(self, rows: Sequence[ExpandedRow], linked: Mapping[Expansion, Mapping[str, bytes]]) -> list[bytes]:
        entities = self.source.encode_each([row.row for row in rows])
        members = [self._members(expansion, rows, linked) for expansion in self.expansions]
        of_rows = map(b"".join, zip(*members, strict=True))
        return [b"%b%b}" % (entity[:-1], of_row) for entity, of_row in zip(entities, of_rows, strict=True)]

    def _members(
        self, expansion: Expansion, rows: Sequence[ExpandedRow], linked: Mapping[Expansion, Mapping[str, bytes]]
    ) -> list[bytes]:
        """Return a navigation property of each row, after a comma."""
        navigation = expansion.navigation
        name = orjson.dumps(navigation.name)
        if navigation.children is not None:
            values = self._children(expansion, navigation.children, [row.row for row in rows])
        else:
            keys = (row.linked[navigation.name].id if navigation.name in row.linked else "" for row in rows)
            values = [linked[expansion].get(key, b"null") for key in keys]
        return [b",%b:%b" % (name, value) for value in values]

    def _children(self, expansion: Expansion, children: ChildSet, rows: Sequence[EntityRow]) -> list[bytes]:
        return [
            encode_children(
                expansion.properties,
                row.resource,
                children.children(row.id, record, row.source),  # type: ignore[arg-type]
            )
            for row, record in zip(rows, self.source.records.shown(rows), strict=True)
        ]

    async def _linked(self, expansion: Expansion, rows: Sequence[ExpandedRow]) -> dict[str, bytes]:
        """Return the entities that rows name by a navigation property, by key."""
        name = expansion.navigation.name
        distinct = {row.linked[name].id: row.linked[name] for row in rows if name in row.linked}
        source = _page_source(self.call, expansion.navigation.target, expansion.properties, distinct)
        encoded: dict[str, bytes] = {}
        async for few in batches_in_turns(list(distinct), _ROWS_OF_A_TURN):
            encoded |= zip(few, source.encode_each([distinct[key] for key in few]), strict=True)
        return encoded

    def _keys(self, row: EntityRow, links: Sequence[Navigation]) -> dict[str, str | None]:
        """Return the keys that a record has for navigation properties; none that the key may not see."""
        if not links:
            return {}
        members, properties = _decode_members(row.record), self.source.entity_set.properties
        return {link.name: self._key(members, properties[link.key_property], row.resource) for link in links}

    def _key(self, members: Mapping[str, Any], declared: EntityProperty, resource: Resource) -> str | None:
        column = declared.columns.get(resource)
        if column is None or column.group in self.call.visibility.withheld or column.source_member not in members:
            return None
        value = msgspec.json.decode(members[column.source_member])
        return value if isinstance(value, str) and value else None

    async def _read(
        self, target: EntitySet, links: Sequence[Navigation], named: Sequence[Mapping[str, str | None]]
    ) -> dict[str | None, EntityRow]:
        of_target = [link.name for link in links if link.target is target]
        keys = {key for keys in named for name in of_target if (key := keys[name]) is not None}
        if not keys:
            return {}
        source = _page_source(self.call, target, (), keys)
        return {row.id: row for row in await source.records.rows((), len(keys))}


def _linked_rows(
    links: Sequence[Navigation], keys: Mapping[str, str | None], found: Mapping[str, Mapping[str | None, EntityRow]]
) -> dict[str, EntityRow]:
    """Return the rows that a record names, by navigation property."""
    rows = {link.name: found[link.target.name].get(keys[link.name]) for link in links}
    return {name: row for name, row in rows.items() if row is not None}


def _page_source(
    call: RequestContext, target: EntitySet, properties: tuple[EntityProperty, ...], keys: Iterable[str]
) -> EntityPageSource:
    clause = terms("_id", sorted(keys))
    selections = tuple(call.selection(resource, (clause,)) for resource in target.resources)
    return EntityPageSource(call, target, EntityRecords(call, selections, BY_KEY), properties)


def expand(
    call: RequestContext, source: EntityPageSource, items: Sequence[ExpandItem]
) -> EntityPageSource | ExpandedPageSource:
    """Return a source with the entities that `$expand` names; raise InvalidRequest for an unknown name."""
    known = navigations(source.name)
    if unknown := [item.name for item in items if item.name not in known]:
        possible = ", ".join(one.name for one in declared_navigations(source.name))
        raise InvalidRequest.of(EXPAND, f"{source.name} has no navigation property {unknown[0]!r}; it has {possible}.")
    expansions = tuple(
        Expansion(known[item.name], selected_properties(call, known[item.name].target, item.select, EXPAND))
        for item in items
    )
    return ExpandedPageSource(call, source, expansions) if expansions else source
