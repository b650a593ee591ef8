"""Children of all parents in the order of their days or starts, which their tokens tell.

Children of one value are a group. An aggregation names the next tokens with their numbers, and with them the next
groups; the children of a group are read parent by parent, in the order of their keys: the position in a next link is
the value, then the key. Small groups are read together.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Any

import orjson

from mappings.listing import TOKENS
from mappings.open_houses import Token
from service.reso.cost import Searched
from service.reso.ordering import Position, SortKind, skip_positions
from service.reso.protocol import ORDER_BY, OptionNotImplemented, OrderBy
from service.reso.sets.child_selection import ChildRow, ChildSelection
from service.reso.sets.child_tokens import BY_DAY, BY_DAY_AND_START, BY_START, TokenMatcher
from service.reso.sets.entity_query import require_shown
from service.reso.sets.token_set import EVERY, NONE, TokenSet
from service.search.query import Body, Selection

# Tokens of one search.
_TOKENS_AT_ONCE = 1_000
# Positions that are skipped at once.
_SKIPPED_AT_ONCE = 1_000
_Read = Callable[[ChildSelection, Position, int], Awaitable[list[ChildRow]]]
# The parents of a resource, tokens of their children, and the last of these that was read.
_Stream = tuple[Selection, TokenSet, str | None]
# What orders children, by the properties at the beginning of `$orderby`.
_ORDERS = {(BY_DAY,): BY_DAY, (BY_START,): BY_START, (BY_DAY, BY_START): BY_DAY_AND_START}


@dataclass(frozen=True)
class ChildrenInOrder:
    """A selection of children in the order of what their tokens tell."""

    selection: ChildSelection
    matcher: TokenMatcher
    is_descending: bool

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        return (SortKind.KEYWORD, *self.selection.position_kinds)

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""
        return self.selection.searched

    async def count(self) -> int:
        """Return the number of children."""
        return await self.selection.count()

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""
        return await skip_positions(self._positions, number, _SKIPPED_AT_ONCE)

    async def _positions(self, after: Position, size: int) -> list[Position]:
        return [row.position for row in await self._next(after, size, ChildSelection.located)]

    async def rows(self, after: Position, size: int) -> list[ChildRow]:
        """Return the next children after a position."""
        return await self._next(after, size, ChildSelection.rows)

    async def _next(self, after: Position, size: int, read: _Read) -> list[ChildRow]:
        reached = str(after[0]) if after else None
        found = await self._of_groups([reached], after[1:], size, read) if reached is not None else []
        while len(found) < size and (groups := await self._groups_after(reached)):
            while groups and (missing := size - len(found)) > 0:
                some = _first_groups(groups, missing)
                wanted = sum(groups[group] for group in some)
                rows = await self._of_groups(some, (), missing if len(some) == 1 else wanted + 1, read)
                if len(some) > 1 and len(rows) > wanted:
                    # Groups have grown since they were counted: what is missing of one must not be passed.
                    some, rows = some[:1], await self._of_groups(some[:1], (), missing, read)
                found += rows
                groups = {group: number for group, number in groups.items() if group not in some}
                reached = some[-1]
        return found[:size]

    async def _of_groups(self, groups: Sequence[str], after: Position, size: int, read: _Read) -> list[ChildRow]:
        """Return the next children of adjacent groups: after a position if it is one, all if there are several."""
        tokens = self.matcher.within(min(groups), max(groups))
        rows = await read(self.selection.within(tokens), after, size)
        placed = [row._replace(position=(self._value(row), *row.position)) for row in rows]
        return sorted(placed, key=lambda row: str(row.position[0]), reverse=self.is_descending)

    def _value(self, row: ChildRow) -> str:
        return "" if row.child.token is None else self.matcher.value(row.child.token)

    async def _groups_after(self, reached: str | None) -> Mapping[str, int]:
        """Return the next groups after one with their sizes, in order; empty: there are no more."""
        rest = self._behind(reached) & self.selection.condition.all_tokens
        # Not counted: as many as there may be, so they are read alone.
        unknown = {"": maxsize} if rest & ~self.matcher.known != NONE else {}
        if self.is_descending:
            return await self._known_groups(rest) or unknown
        return unknown or await self._known_groups(rest)

    def _behind(self, reached: str | None) -> TokenSet:
        if reached is None:
            return EVERY
        if self.is_descending:
            return ~self.matcher.since(reached) if reached else NONE
        return self.matcher.behind(reached)

    async def _known_groups(self, rest: TokenSet) -> Mapping[str, int]:
        """Return the next groups of known values, in order, whole.

        What is behind the last token of a full response is not known, so groups that may go on there wait for more.
        """
        sizes = Counter[str]()
        streams: list[_Stream] = [
            (selection, tokens, None)
            for tokens in (rest & part for part in self.matcher.parts)
            if tokens != NONE
            for selection in self.selection.within(tokens).parents.selections
        ]
        while streams:
            read = await asyncio.gather(*(self._tokens(*stream) for stream in streams))
            for (_, tokens, _), found in zip(streams, read, strict=True):
                for text, number in found:
                    if tokens.has(text):
                        sizes[self.matcher.value(Token.read(text))] += number
            streams = [
                (selection, tokens, found[-1][0])
                for (selection, tokens, _), found in zip(streams, read, strict=True)
                if len(found) == _TOKENS_AT_ONCE
            ]
            ends = [
                self.matcher.reached(Token.read(str(after)), is_descending=self.is_descending) for *_, after in streams
            ]
            whole = {
                value: sizes[value]
                for value in sorted(sizes, reverse=self.is_descending)
                if all(value > end if self.is_descending else value < end for end in ends)
            }
            if whole:
                return whole
        return {}

    async def _tokens(self, selection: Selection, tokens: TokenSet, after: str | None) -> list[tuple[str, int]]:
        """Return the next tokens of a resource after a text with the numbers of their children, in order.

        Those outside of the set, which the parents of others have, are among them.
        """
        order = "desc" if self.is_descending else "asc"
        pages: dict[str, Any] = {
            "size": _TOKENS_AT_ONCE,
            "sources": [{"token": {"terms": {"field": TOKENS, "order": order}}}],
        }
        if (entered := tokens.entered(after, is_descending=self.is_descending)) is not None:
            pages["after"] = {"token": entered}
        body: Body = {
            "size": 0,
            "track_total_hits": False,
            "query": selection.query(),
            "aggs": {"tokens": {"composite": pages}},
        }
        response = await self.selection.call.search(selection.resource, body)
        return [
            (bucket["key"]["token"], bucket["doc_count"])
            for bucket in orjson.loads(response)["aggregations"]["tokens"]["buckets"]
        ]


def _first_groups(groups: Mapping[str, int], most: int) -> list[str]:
    """Return the first groups that have at most so many children together, at least one group."""
    chosen, total = list[str](), 0
    for group, number in groups.items():
        total += number
        if chosen and total > most:
            break
        chosen.append(group)
    return chosen


def in_order(selection: ChildSelection, orders: Sequence[OrderBy]) -> ChildrenInOrder:
    """Return a selection in the order of what tokens tell, then of keys; raise OptionNotImplemented for others."""
    child_set = selection.child_set
    told = [matcher for order in orders if (matcher := child_set.tokens(order.name)) is not None]
    matcher, keys = _ORDERS.get(tuple(told)), {child_set.key, child_set.parent_key}
    if (
        matcher is None
        or len({order.is_descending for order in orders[: len(told)]}) > 1
        or not {order.name for order in orders[len(told) :]} <= keys
    ):
        names = ", ".join(order.name for order in orders)
        advice = f"Order by the day, the start or both first, then by {child_set.key} if you want."
        raise OptionNotImplemented(ORDER_BY, f"the order by {names}", advice)
    for order in orders[: len(told)]:
        require_shown(selection.call, child_set.properties[order.name], ORDER_BY)
    return ChildrenInOrder(selection, matcher, orders[0].is_descending)
