"""One page of a collection: which rows, and the link to the next ones."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from urllib.parse import quote

from tests.reso.query.filter_bounds import Bounds, bounds, equality_values
from tests.reso.query.ordering import RowPosition
from tests.reso.query.query_options import CollectionQuery, SkipToken
from tests.reso.server.schema import MODIFICATION_FIELD
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.server.table import Table, TableRow

# The order in which the reference server writes the options of a next link, and what a URL's query may hold raw.
_CARRIED = ("$filter", "$select", "$expand", "$orderby", "$top", "$skip", "$count", "$skiptoken")
_RAW = "!~*'()"


@dataclass(frozen=True)
class ServerPage:
    """`options` are those of the next link, None at the end; `count` is None unless it was requested."""

    rows: list[TableRow]
    options: dict[str, str] | None
    count: int | None
    is_truncated: bool = False


@dataclass(frozen=True)
class Pager:
    """Reads pages of one table. `epoch` is the age of the tokens that hold, `salt` what ties are shuffled by."""

    table: Table
    settings: ServerSettings
    epoch: int
    salt: int

    def page(self, query: CollectionQuery, fault: ServerFault | None) -> ServerPage:
        """Return the page that a query asks for, with what goes wrong with it."""
        size, owed = self.size(query), self._owed(query)
        limit = size if owed is None else max(0, min(size, owed))
        skip = 0 if query.token else query.skip
        page = self._page(query, list(islice(self._matching(query), skip, skip + limit)), owed)
        return self._broken(query, page, owed, fault) if page.rows else page

    def size(self, query: CollectionQuery) -> int:
        """Return how many rows a full page has: as preferred, else all of $top, else the default."""
        return min(query.preferred or query.top or self.settings.default_page, query.most or self.settings.max_page)

    def _paging(self, query: CollectionQuery) -> str:
        return query.paging or self.settings.paging

    def _owed(self, query: CollectionQuery) -> int | None:
        if query.token:
            return query.token.remaining_top
        is_debt = self._paging(query) == "skip" and self.settings.owes_top_less_skip
        return query.top if query.top is None or not is_debt else query.top - query.skip

    def _page(self, query: CollectionQuery, rows: list[TableRow], owed: int | None) -> ServerPage:
        has_link = 0 < len(rows) == self.size(query) and (owed is None or len(rows) < owed)
        counted = query.options.get("$count") == "true"
        count = sum(query.accepts(row.record) for row in self.table.rows.values()) if counted else None
        return ServerPage(rows, self._next(query, rows, owed) if has_link else None, count)

    def _broken(
        self, query: CollectionQuery, page: ServerPage, owed: int | None, fault: ServerFault | None
    ) -> ServerPage:
        half = len(page.rows) // 2
        if fault is ServerFault.EMPTY:
            return ServerPage([], None, None if page.count is None else 0, is_truncated=True)
        if fault is ServerFault.STOPS_SHORT:
            return replace(page, rows=page.rows[:half], options=None, is_truncated=True)
        if fault is ServerFault.SHORT_PAGE and half:
            rows = page.rows[:half]
            return replace(page, rows=rows, options=self._next(query, rows, owed), is_truncated=True)
        return page

    def _next(self, query: CollectionQuery, rows: list[TableRow], owed: int | None) -> dict[str, str]:
        left = None if owed is None else owed - len(rows)
        if self._paging(query) == "token":
            token = SkipToken(query.order.position(rows[-1]), left, self.epoch)
            return query.options | {"$skip": "", "$skiptoken": token.text()}
        top = {} if left is None or self.settings.owes_top_less_skip else {"$top": str(left)}
        return query.options | top | {"$skip": str(query.skip + len(rows))}

    def _matching(self, query: CollectionQuery) -> Iterator[TableRow]:
        place = query.token.place if query.token else None
        return (
            row
            for row in self._candidates(query, place)
            if query.accepts(row.record) and (place is None or query.order.is_after(row, place))
        )

    def _candidates(self, query: CollectionQuery, place: RowPosition | None) -> Iterator[TableRow]:
        """Yield in order all rows that may match: from an index where one serves, else from all rows."""
        table, order, tie = self.table, query.order, self._tie()
        only = equality_values(query.where, table.entity.key)
        if only is not None:
            return iter(order.sorted((table.rows[key] for key in only if key in table.rows), tie))
        if not order.terms:
            return iter(table.rows.values())
        first = order.terms[0]
        within = self._within(query, place)
        if first.field == table.entity.key:
            return table.by_key(within, descending=first.descending)
        if first.field == MODIFICATION_FIELD:
            groups = table.by_moment(within, descending=first.descending)
            return (row for group in groups for row in order.sorted(group, tie))
        return iter(order.sorted((row for row in table.rows.values() if query.accepts(row.record)), tie))

    def _within(self, query: CollectionQuery, place: RowPosition | None) -> Bounds:
        """Return the bounds of the first term, from the filter and from the place behind which to go on."""
        first = query.order.terms[0]
        if self.settings.compares_text and first.field == MODIFICATION_FIELD:  # its bounds are not times
            return Bounds()
        said = bounds(query.where, first.field)
        if place is None or place[0] == [0]:
            return said
        reached = place[0][1]
        if first.descending:
            return replace(said, high=reached if said.high is None else min(said.high, reached))
        return replace(said, low=reached if said.low is None else max(said.low, reached))

    def _tie(self) -> Callable[[TableRow], int]:
        if self.settings.shuffles_ties and self.settings.paging == "skip":  # opaque links do not lose rows
            return lambda row: zlib.crc32(b"%d:%d" % (self.salt, row.number))
        return lambda row: row.number


def link(address: str, options: dict[str, str]) -> str:
    """Return a next link as the reference server writes it: `$` and `=` raw, everything else of a value encoded."""
    carried = [(name, options[name]) for name in _CARRIED if options.get(name)]
    return f"{address}?" + "&".join(f"{name}={quote(value, safe=_RAW)}" for name, value in carried)
