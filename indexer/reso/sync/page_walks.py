"""The ways to read the pages of an entity: by key, by timestamp and key, or by next links; and how far each got.

Keys and timestamps are conditions on records, so nothing shifts when other records change or vanish. Next links belong
to the source: some count rows, so that a record that vanishes makes them skip another. So a walk by links is compared
with the number of records that the source counts, and repeated if it found fewer.
"""

import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from indexer.errors import RefusedError, SourceError
from indexer.reso.client.odata import (
    ODataPage,
    ODataQuery,
    SourceRejectedError,
    SyncPosition,
    after_change_filter,
    format_source_time,
    is_sorted_by_time,
    parse_source_time,
)
from indexer.reso.source_map import BY_KEYS, BY_LINKS
from indexer.reso.sync.entity_reader import EntityReader, SourceRow

# A walk by links that found too few records is repeated.
_MAX_WALKS = 3
# The source no longer knows a link.
_EXPIRED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


class SourcePage(NamedTuple):
    """A page, and where to continue after it; a walk may begin again at its start."""

    rows: list[SourceRow]
    position: str | None
    is_last: bool


class PageWalks:
    def __init__(self, reader: EntityReader) -> None:
        self._reader, self._form = reader, reader.form
        self._expected: int | None = None  # records that the source counted at the start of the last walk by links
        self.is_complete = True  # whether the last walk by links found as many

    async def all_pages(self, query: ODataQuery, position: str | None) -> AsyncIterator[SourcePage]:
        query = query.where(self._form.live)
        if self._form.load == BY_KEYS:
            async for rows in self._reader.pages_by_key(query, position):
                yield SourcePage(rows, self._reader.last_key(rows), not rows)
        elif self._form.load == BY_LINKS:
            source = replace(query, path=self._form.load_path, option=self._form.load_option)
            async for page in self._pages_by_links(source, position):
                yield page
        else:
            place = None if position is None else tuple(position.split(" ", 1))
            async for rows, is_full in self.pages_by_time(query, "", place):  # type: ignore[arg-type]  # a pair
                last = " ".join(self._reader.position_of(rows[-1])) if rows and is_full else None
                yield SourcePage(rows, last, not is_full)

    def require_all(self, found: int) -> None:
        """Raise RefusedError if the last walk by links found fewer records than the source counts, or may have."""
        if self._expected is None and not self.is_complete:
            raise RefusedError(
                f"{self._reader.name}: the last page of the source is full, has no next link, and its records are not "
                "counted, so it is unknown whether there are more. None were removed."
            )
        if self._expected is not None and found < self._expected:
            raise RefusedError(
                f"{self._reader.name}: the source lists {found:,} of the {self._expected:,} records that it counts, so "
                "it is unknown which are gone. None were removed."
            )

    async def pages_by_time(
        self, query: ODataQuery, since: str, position: SyncPosition | None = None
    ) -> AsyncIterator[tuple[list[SourceRow], bool]]:
        """Yield pages by timestamp and key, each with whether another may follow."""
        reader, modified = self._reader, self._form.modified
        query, is_full = query.ordered_by(f"{modified},{reader.key}"), True
        first, reached = f"{modified} ge {since}" if since else "", {position}
        while is_full:
            after = first if position is None else self._after(position)
            rows, is_full = await self._page(query.where(after))
            position = advance(reader, position, rows, is_full=is_full)
            if is_full and position in reached:
                raise SourceError(f"{reader.name}: the source returns the same pages by time again and again.")
            reached.add(position)
            yield rows, is_full

    def _after(self, position: SyncPosition) -> str:
        time, key = position
        return after_change_filter(self._form.modified, self._reader.key, (time, self._form.key_literal(key)))

    async def _page(self, query: ODataQuery) -> tuple[list[SourceRow], bool]:
        """Return a page, and whether another may follow; a wrong "yes" costs one request."""
        page = await self._reader.fetch(query)
        is_full = page.next_link is not None or len(page.value) >= self._reader.page_size
        return page.value, is_full and bool(page.value)

    async def changes_by_links(self, query: ODataQuery, since: str) -> AsyncIterator[list[SourceRow]]:
        """Yield the pages of the records that changed since a time, in the source's order; see `is_complete`."""
        async for page in self._pages_by_links(query.where(f"{self._form.modified} ge {since}"), None):
            yield page.rows

    async def _pages_by_links(self, query: ODataQuery, link: str | None) -> AsyncIterator[SourcePage]:
        """Yield the pages of a walk, and of its repetitions if it finds fewer records than the source counts."""
        for attempt in range(1, _MAX_WALKS + 1):
            found = 0
            self._expected = None
            try:
                async for page in self._linked(query, link):
                    found += len(page.value)
                    self.is_complete = self._is_complete(found, page)
                    is_last = page.next_link is None and (self.is_complete or attempt == _MAX_WALKS)
                    yield SourcePage(page.value, page.next_link, is_last)
            except SourceRejectedError as error:
                if link is None or error.status not in _EXPIRED:
                    raise
                self.is_complete = False
            if self.is_complete:
                return
            link = None

    def _is_complete(self, found: int, page: ODataPage) -> bool:
        """Whether a walk up to a page found all; without a count, a full page without a link may not be the last."""
        if self._expected is None:
            return page.next_link is not None or len(page.value) < self._reader.page_size
        return found >= self._expected

    async def _linked(self, query: ODataQuery, link: str | None) -> AsyncIterator[ODataPage]:
        """Yield the pages from a link, or from the start; raise SourceError if the links lead in a circle.

        A link that leads to itself sends the next page each time, until one is empty.
        """
        page, visited = await (self._first_page(query) if link is None else self._reader.fetch_link(link)), {link}
        while True:
            is_same = page.next_link == link and link is not None
            if is_same and not page.value:
                page.next_link = None
            yield page
            before = page
            if before.next_link is None:
                return
            link, is_new = page.next_link, page.next_link not in visited
            visited.add(link)
            page = await self._reader.fetch_link(before.next_link)
            if not is_new and (not is_same or page.value == before.value):
                raise SourceError(f"{self._reader.name}: the next links of the source lead to the same pages again.")

    async def _first_page(self, query: ODataQuery) -> ODataPage:
        """Return the first page, requested again if it is empty, and keep the number of records."""
        query = replace(query, with_count=True)
        try:
            page = await self._reader.fetch(query, has_next_links=True)
        except SourceRejectedError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            # Some endpoints of replication do not count.
            query = replace(query, with_count=False)
            page = await self._reader.fetch(query, has_next_links=True)
        if not page.value and page.next_link is None:
            page = await self._reader.fetch(query, has_next_links=True)
        self._expected = page.count
        return page


# The assumed clock difference between the machines of one source.
_MAX_CLOCK_SKEW = dt.timedelta(seconds=5)


class EntitySyncState(msgspec.Struct):
    """The checkpoint of an entity, stored in the mirror."""

    since: str  # the timestamp at which the next pass by time starts; empty before the first load
    loaded: bool = False
    last: str | None = None  # the last key that an unfinished load stored
    place: SyncPosition | None = None  # the last record of an unfinished pass by time
    newest: str = ""  # the newest timestamp that the last pass by time found
    found: float = 0.0  # when `newest` was first found, in seconds since 1970
    compared: float = 0.0  # when all keys were last compared, in seconds since 1970
    refused: str | None = None  # why the last comparison removed nothing
    is_local: bool = False  # times without an offset were found: an hour may come twice

    def finish_pass(self, now: float, quiet_seconds: float) -> None:
        """End a pass by time; the next one starts before the newest change known when this one started.

        A record can change twice within one tick of the source's clock, up to a second on some sources; one that was
        read in between keeps its timestamp. Records that were read after something newer had been seen can no longer
        change under the same timestamp; all others are read again until `quiet_seconds` pass without a newer change.
        """
        newest = self.place[0] if self.place else self.newest
        if (previous := parse_source_time(self.newest)) is not None:
            self.since = format_source_time(previous - _MAX_CLOCK_SKEW)
        if newest != self.newest:
            self.newest, self.found = newest, now
        if now - self.found < quiet_seconds:
            self.place = None


def advance(
    reader: EntityReader, position: SyncPosition | None, rows: list[SourceRow], *, is_full: bool
) -> SyncPosition | None:
    """Return the position after a page; raise SourceError if the source made no progress or ignored the order.

    A source that stores finer timestamps than it returns sends the last record again; only that one may repeat.
    """
    if not rows:
        return position
    reached = reader.position_of(rows[-1])
    is_ordered = is_sorted_by_time([reader.time_of(row) for row in rows])
    if not is_ordered or "" in reached or (is_full and reached == position):
        raise SourceError(f"{reader.name}: the source ignores a filter or an order by {reader.form.modified}.")
    return reached
