"""Reading records of one entity into the mirror, page by page or by key, with the records that are members of them."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from indexer.errors import SourceError
from indexer.reporting.report import OnProgress, ResourceReport, RunStage
from indexer.reso.client.odata import (
    ODataPage,
    ODataQuery,
    SourceRejectedError,
    SyncPosition,
    after_key_filter,
    batch_keys,
    is_sorted_by_key,
    keys_filter,
    queryable_time,
)
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.entity_forms import STANDARD_FORM, ChildForm, EntityForm
from indexer.reso.mirror import Mirror, key_text
from indexer.reso.settings import ResoSettings
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DictionaryEntity

_NEXT_LINK = "@odata.nextLink"
# Of one record, while its further pages are read: a source without an end would fill the memory.
_MAX_CHILDREN = 100_000


@dataclass
class ChildRecords:
    """The children of one entity's records; each is stored with its parent, in the same transaction.

    A list counts as all children of the parent, so what it lacks is removed. If the member is missing, the children of
    the parent stay as they are, unless the parent says that it has none.
    """

    parent: str
    form: ChildForm
    mirror: Mirror
    report: ResourceReport = field(init=False)
    changed: int = 0
    removed: int = 0
    without_key: int = 0
    fewer: int = 0  # parents with fewer children than they say
    example: str = ""

    def __post_init__(self) -> None:
        self.report = ResourceReport(self.form.name)

    @property
    def name(self) -> str:
        return self.form.name

    @property
    def key(self) -> str:
        return self.form.entity.key

    async def complete(self, client: ResoClient, row: dict[str, Any]) -> None:
        """Read the further pages of a parent's children: a source may send the first few of them with a link."""
        link = row.get(f"{self.form.member}{_NEXT_LINK}")
        visited: set[str] = set()
        while isinstance(link, str) and link not in visited:
            visited.add(link)
            page = await client.fetch_link(self.name, link)
            row[self.form.member] = [*(row.get(self.form.member) or []), *page.value]
            link = page.next_link
            if len(row[self.form.member]) > _MAX_CHILDREN:
                raise SourceError(f"{self.name}: a record of {self.parent} has more than {_MAX_CHILDREN:,} of them.")

    def store(self, parent_key: str, row: Mapping[str, Any]) -> None:
        items, expected = row.get(self.form.member), _count(row.get(self.form.counted_by))
        given = items if isinstance(items, list) else []
        if expected is not None and len(given) < expected:
            self.fewer += 1
            self.example = self.example or f"{parent_key!r} has {len(given)} of {expected}"
        known = set(self.mirror.part_keys(self.name, self.parent, parent_key))
        listed = dict(self._records(parent_key, given))
        for key, record in listed.items():
            self._put(key, record)
        if isinstance(items, list) or expected == 0:
            self._remove(known - listed.keys())

    def remove_all(self, parent_key: str) -> None:
        """Remove the children of a parent that is gone, within the caller's transaction."""
        self._remove(set(self.mirror.part_keys(self.name, self.parent, parent_key)))

    def _remove(self, keys: set[str]) -> None:
        for key in sorted(keys):
            self.removed += self.mirror.remove(self.name, key)

    def _put(self, key: str, record: dict[str, Any]) -> None:
        modified = record.get(MODIFICATION_TIMESTAMP)
        self.report.read += 1
        self.changed += self.mirror.put(self.name, key, modified if isinstance(modified, str) else "", record)

    def _records(self, parent_key: str, items: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield key and record of each child; one without a key of its own gets one from its parent and position."""
        seen: set[str] = set()
        for position, item in enumerate(items):
            if not isinstance(item, dict):
                self.without_key += 1
                continue
            own = key_text(item.get(self.key))
            key = own if own and own not in seen else f"{parent_key}:{own}:{position}"
            seen.add(key)
            record = {name: item[name] for name in self.form.select if item.get(name) is not None}
            yield key, record | self._links(parent_key) | {self.key: key}

    def _links(self, parent_key: str) -> dict[str, str]:
        """Return the fields that link a child to its parent: sources omit them, or fill them with another key."""
        keys = dict.fromkeys(self.form.key_fields, parent_key)
        return keys | dict.fromkeys(self.form.name_fields, self.parent)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


SourceRow = dict[str, Any]
# An empty page counts as the end only if the next attempt is empty too: a busy source may return one.
_EMPTY_PAGE_ATTEMPTS = 2


@dataclass(frozen=True)
class SourceContext:
    client: ResoClient
    mirror: Mirror
    settings: ResoSettings
    on_progress: OnProgress


@dataclass
class EntityReader:
    """Reads one entity of a source, and what comes with it; only the fields of `select` are requested and stored."""

    name: str
    entity: DictionaryEntity
    select: tuple[str, ...]
    source: SourceContext
    form: EntityForm = STANDARD_FORM
    report: ResourceReport = field(init=False)
    children: tuple[ChildRecords, ...] = field(init=False)
    changed: int = 0  # records that were new or different
    removed: int = 0
    without_key: int = 0  # records that cannot be stored
    _uses_or_filter: bool = False

    def __post_init__(self) -> None:
        self.report = ResourceReport(self.name)
        self.children = tuple(ChildRecords(self.name, form, self.source.mirror) for form in self.form.children)
        self.page_size = min(self.source.settings.page_size, self.form.page_size or self.source.settings.page_size)

    @property
    def key(self) -> str:
        return self.entity.key

    @property
    def records_query(self) -> ODataQuery:
        members = tuple(child.field for child in self.form.children if child.field)
        expand = tuple(child.expand for child in self.form.children if child.expand)
        return replace(self._query((*self._selected, *members)), expand=expand)

    @property
    def keys_query(self) -> ODataQuery:
        """The query for the keys of all records, and the fields that show whether they changed."""
        shown = (self.key, self.form.modified, *self.form.watched, self.form.gone_field)
        return self._query(tuple(filter(None, shown)))

    @property
    def _selected(self) -> tuple[str, ...]:
        counts = (child.counted_by for child in self.form.children if child.counted_by in self.form.watched)
        own = (*self.select, self.form.modified, self.form.gone_field, *self.form.watched, *counts)
        return tuple(dict.fromkeys(filter(None, own)))

    def _query(self, select: tuple[str, ...]) -> ODataQuery:
        return ODataQuery(self.name, select, page_size=self.page_size).where(self.form.filter, self.entity.filter)

    def key_of(self, row: SourceRow) -> str:
        """Return the key of a record, empty if it has none."""
        return key_text(row.get(self.key))

    def time_of(self, row: SourceRow) -> str:
        """Return the time of the last change as the source formats it, empty if there is none."""
        value = row.get(self.form.modified)
        return value if isinstance(value, str) else ""

    def position_of(self, row: SourceRow) -> SyncPosition:
        return queryable_time(self.time_of(row)), self.key_of(row)

    def state_of(self, row: SourceRow) -> str:
        """Return what differs if the record or its children changed, empty if the row does not show it."""
        if not (modified := self.time_of(row)):
            return ""
        return " ".join([modified, *(str(row.get(name)) for name in self.form.watched)])

    async def fetch(self, query: ODataQuery, *, has_next_links: bool = False) -> ODataPage:
        return await self._completed(await self.source.client.fetch_page(query, has_next_links=has_next_links))

    async def fetch_link(self, link: str) -> ODataPage:
        """Return the page of a next link with all children of its records."""
        return await self._completed(await self.source.client.fetch_link(self.name, link, self.page_size))

    async def _completed(self, page: ODataPage) -> ODataPage:
        for child in self.children:
            for row in page.value:
                await child.complete(self.source.client, row)
        return page

    def store(self, rows: Iterable[SourceRow]) -> None:
        """Store records with their children, remove those marked as deleted, within the caller's transaction."""
        for row in rows:
            self.report.read += 1
            key = self.key_of(row)
            if not key:
                self.without_key += 1
            elif self.form.is_gone(row):
                self.remove([key])
            else:
                given = ((name, row.get(name)) for name in self.select)
                record = {name: self.form.named(name, value) for name, value in given if value is not None}
                self.changed += self.source.mirror.put(self.name, key, self.state_of(row), record)
                for child in self.children:
                    child.store(key, row)
        self.report.stage = RunStage.READING
        self.source.on_progress(self.report)

    def finish(self) -> None:
        self.report.stage = RunStage.READ
        if self.report.read:
            self.source.on_progress(self.report)

    async def pages_by_key(self, query: ODataQuery, last: str | None) -> AsyncIterator[list[SourceRow]]:
        """Yield the pages after a key, and an empty one at the end; raise SourceError if the source makes no progress.

        It ignores the filter or the order if a page ends where an earlier one did.
        """
        reached = {last}
        while rows := await self._page_after(query, last):
            last = self.last_key(rows)
            if last in reached:
                raise SourceError(f"{self.name}: the source ignores a filter by {self.key}, so it cannot be read.")
            reached.add(last)
            yield rows
        yield rows

    def last_key(self, rows: Sequence[SourceRow]) -> str | None:
        """Return the last key of a page, None if there is none."""
        return next((key for row in reversed(rows) if (key := self.key_of(row))), None)

    async def _page_after(self, query: ODataQuery, last: str | None) -> list[SourceRow]:
        """Return the page after a key, empty at the end; raise SourceError if the source ignores filter or order."""
        after = after_key_filter(self.key, None if last is None else self.form.key_literal(last))
        rows = await self.fetch_nonempty(query.where(after).ordered_by(self.key))
        if rows:
            self._check(rows, last)
        return rows

    async def fetch_nonempty(self, query: ODataQuery) -> list[SourceRow]:
        """Return a page, requested again if it is empty."""
        for _ in range(_EMPTY_PAGE_ATTEMPTS):
            if rows := (await self.fetch(query)).value:
                return rows
        return []

    def _check(self, rows: Sequence[SourceRow], last: str | None) -> None:
        keys = [key for row in rows if (key := self.key_of(row))]
        if not keys:
            raise SourceError(f"{self.name}: no record of the source has a {self.key}.")
        if last in keys:
            raise SourceError(f"{self.name}: the source ignores a filter by {self.key}, so it cannot be read.")
        if not is_sorted_by_key(keys):
            raise SourceError(f"{self.name}: the source ignores an order by {self.key}, so it cannot be read.")

    async def refresh_keys(self, keys: Sequence[str]) -> set[str]:
        """Read records by key; return the keys that the source confirms as missing."""
        return await self.confirm_missing(await self.fetch_keys(keys))

    async def fetch_keys(self, keys: Sequence[str]) -> list[str]:
        """Read records by key; return the keys that the responses lack."""
        absent: list[str] = []
        for batch in batch_keys(keys, self.source.settings.keys_per_request if self.form.finds_keys else 1):
            rows = await self._fetch_batch(batch)
            with self.source.mirror.transaction():
                self.store(rows)
            absent += sorted(set(batch) - {self.key_of(row) for row in rows})
        return absent

    async def confirm_missing(self, absent: Sequence[str]) -> set[str]:
        """Request records by address: a record that a filter misses may only have been left out of a response."""
        return {key for key in absent if await self._is_gone(key)}

    async def _fetch_batch(self, keys: Sequence[str]) -> list[SourceRow]:
        if not self.form.finds_keys:
            return [row for key in keys for row in await self._fetch_by_address(key)]
        try:
            literals = [self.form.key_literal(key) for key in keys]
            query = self.records_query.where(keys_filter(self.key, literals, use_or=self._uses_or_filter))
            return (await self.fetch(query)).value
        except SourceRejectedError as error:
            if self._uses_or_filter or error.status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED}:
                raise
            self._uses_or_filter = True
        return await self._fetch_batch(keys)

    async def _fetch_by_address(self, key: str) -> list[SourceRow]:
        row = await self.source.client.fetch_record(self.records_query.addressed, self.form.key_literal(key))
        if row is None:
            return []
        for child in self.children:
            await child.complete(self.source.client, row)
        return [row]

    async def _is_gone(self, key: str) -> bool:
        if self.records_query.filters and self.form.finds_keys:
            literal = self.form.key_literal(key)
            rows = await self.fetch_nonempty(self.records_query.where(keys_filter(self.key, [literal], use_or=True)))
        else:
            rows = await self._fetch_by_address(key)
        with self.source.mirror.transaction():
            self.store(rows)
        return all(self.form.is_gone(row) for row in rows)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove records and their children from the mirror, within the caller's transaction."""
        for key in keys:
            self.removed += self.source.mirror.remove(self.name, key)
            for child in self.children:
                child.remove_all(key)
