"""Children of all parents in the order of their days, which is that of their tokens.

Children of one day are a group. An aggregation names the next groups with their sizes, and the
children of a group are read parent by parent, in the order of their keys: the position in a next link is the group,
then the key. Small groups are read together.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mappings.open_houses import Token
from service.reso.cost import Searched
from service.reso.ordering import Position, SortKind, skip_positions
from service.reso.protocol import ORDER_BY, OptionNotImplemented, OrderBy
from service.reso.sets.child_selection import ChildRow, ChildSelection
from service.reso.sets.child_tokens import TokenMatcher, TokenSet, tokens_of_prefix
from service.reso.sets.entity_query import require_shown
from service.search.query import Body, Selection

# Tokens of one search.
_TOKENS_AT_ONCE = 500
# Positions that are skipped at once.
_SKIPPED_AT_ONCE = 1_000
_Read = Callable[[ChildSelection, Position, int], Awaitable[list[ChildRow]]]


@dataclass(frozen=True)
class ChildrenInOrder:
    """A selection of children in the order of the property that begins their tokens."""

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
        first, last = min(groups[0], groups[-1]), max(groups[0], groups[-1])
        tokens = TokenSet.between(first, tokens_of_prefix(last).bounds[1])
        rows = await read(self.selection.within(tokens), after, size)
        placed = [
            row._replace(position=(row.child.token.day if row.child.token else "", *row.position)) for row in rows
        ]
        return sorted(placed, key=lambda row: str(row.position[0]), reverse=self.is_descending)

    async def _groups_after(self, reached: str | None) -> dict[str, int]:
        """Return the next groups after one with their sizes, in order; empty: there are no more."""
        after = None if reached is None else reached if self.is_descending else tokens_of_prefix(reached).bounds[1]
        while True:
            after = self._entered(after)
            rest = self._behind(after)
            selections = self.selection.within(rest).parents.selections
            read = [await self._tokens(selection, after) for selection in selections]
            ends = [tokens[-1][0] for tokens in read if len(tokens) == _TOKENS_AT_ONCE]
            # What is behind the last token of a full response is not known of its resource.
            end = None if not ends else (max if self.is_descending else min)(ends)
            groups = self._counted([one for tokens in read for one in tokens], end)
            if groups or end is None:
                return groups
            after = end

    def _entered(self, after: str | None) -> str | None:
        """Return where the tokens that the filter selects go on."""
        condition = self.selection.condition
        if condition.matcher is None:
            return after
        return condition.all_tokens.entered(after, is_descending=self.is_descending)

    def _behind(self, after: str | None) -> TokenSet:
        if after is None:
            return TokenSet()
        return TokenSet.between("", after) if self.is_descending else TokenSet((after,))

    def _counted(self, tokens: Sequence[tuple[str, int]], end: str | None) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for text, number in sorted(tokens, reverse=self.is_descending):
            if end is not None and (text < end if self.is_descending else text > end):
                break
            token = Token.read(text)
            if self.selection.condition.may_have(token):
                sizes[token.day] = sizes.get(token.day, 0) + number
        if end is not None and len(sizes) > 1:
            # It may go on behind the last token: then it comes again, whole.
            sizes.pop(Token.read(end).day, None)
        return sizes

    async def _tokens(self, selection: Selection, after: str | None) -> list[tuple[str, int]]:
        """Return the next tokens of a resource after a text with the numbers of their children, in order."""
        order = "desc" if self.is_descending else "asc"
        pages: dict[str, Any] = {
            "size": _TOKENS_AT_ONCE,
            "sources": [{"token": {"terms": {"field": self.matcher.field, "order": order}}}],
        }
        if after is not None:
            pages["after"] = {"token": after}
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


def _first_groups(groups: dict[str, int], most: int) -> list[str]:
    """Return the first groups that have at most so many children together, at least one group."""
    chosen, total = list[str](), 0
    for group, number in groups.items():
        total += number
        if chosen and total > most:
            break
        chosen.append(group)
    return chosen


def in_order(selection: ChildSelection, orders: Sequence[OrderBy]) -> ChildrenInOrder:
    """Return a selection in the order of the first property, which tokens begin with, then of what it has.

    Raise OptionNotImplemented for another order.
    """
    child_set = selection.child_set
    matchers = [child_set.tokens(order.name) for order in orders]
    first = [matcher for matcher in matchers if matcher is not None]
    keys = {child_set.key, child_set.parent_key}
    if (
        matchers[: len(first)] != first
        or len({order.is_descending for order in orders[: len(first)]}) > 1
        or not {order.name for order in orders[len(first) :]} <= keys
    ):
        names = ", ".join(order.name for order in orders)
        advice = f"Order by the day first, then by {child_set.key} if you want."
        raise OptionNotImplemented(ORDER_BY, f"the order by {names}", advice)
    for order in orders[: len(first)]:
        require_shown(selection.call, child_set.properties[order.name], ORDER_BY)
    return ChildrenInOrder(selection, first[0], orders[0].is_descending)
