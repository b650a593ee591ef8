"""The ways to read the pages of an entity: by key, by timestamp and key, or by the next links of the source.

Keys and timestamps are conditions on records, so nothing shifts when other records change or vanish. Next links belong
to the source: some count rows, so that a record that vanishes makes them skip another. So a walk by links is compared
with the number of records that the source counts, and repeated if it found fewer.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

from indexer.errors import RefusedError, SourceError
from indexer.reso.client.odata_query import ODataQuery, after_change_filter
from indexer.reso.client.odata_response import ODataPage, SourceRejectedError
from indexer.reso.dialects.dialect import BY_KEYS, BY_LINKS
from indexer.reso.source_time import SyncPosition
from indexer.reso.sync.entity_reader import EntityReader, SourceRow
from indexer.reso.sync.sync_state import advance

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
    """Reads the pages of one entity."""

    def __init__(self, reader: EntityReader) -> None:
        """Take the reader, whose form says how."""
        self._reader, self._form = reader, reader.form
        self._expected: int | None = None  # records that the source counted at the start of the last walk by links
        self.is_complete = True  # whether the last walk by links found as many

    async def all_pages(self, query: ODataQuery, position: str | None) -> AsyncIterator[SourcePage]:
        """Yield the pages of all records after a position."""
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
        """Raise RefusedError if the last walk by links found fewer records than the source counts."""
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
                    self.is_complete = self._expected is None or found >= self._expected
                    is_last = page.next_link is None and (self.is_complete or attempt == _MAX_WALKS)
                    yield SourcePage(page.value, page.next_link, is_last)
            except SourceRejectedError as error:
                if link is None or error.status not in _EXPIRED:
                    raise
                self.is_complete = False
            if self.is_complete:
                return
            link = None

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
        page = await self._reader.fetch(query, has_next_links=True)
        if not page.value and page.next_link is None:
            page = await self._reader.fetch(query, has_next_links=True)
        self._expected = page.count
        return page
