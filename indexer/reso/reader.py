"""Reads records of one entity into the mirror: pages of a walk, and single records by their keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from indexer.errors import SourceError
from indexer.report import ResourceReport, Stage
from indexer.reso.answers import Refused
from indexer.reso.odata import Question, after_key, among, in_batches
from indexer.reso.order import is_in_order
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from indexer.reso.access import Access
    from mappings.dictionary import Entity

Row = dict[str, Any]
# A page without records is the end only when it is asked for again and still has none: a busy source may answer so.
_EMPTY_PAGES = 2


@dataclass
class Reader:
    """One entity of a source. `select` are the fields that are asked for; nothing else is kept."""

    name: str
    entity: Entity
    select: tuple[str, ...]
    access: Access
    report: ResourceReport = field(init=False)
    changed: int = 0  # of those that were other than known
    removed: int = 0
    keyless: int = 0  # records that cannot be kept
    _spells_out: bool = False

    def __post_init__(self) -> None:
        """Nothing is read yet."""
        self.report = ResourceReport(self.name)

    @property
    def key(self) -> str:
        """The field that holds the key."""
        return self.entity.key

    @property
    def question(self) -> Question:
        """The question for everything of the entity."""
        return Question(self.name, self.select, (), page=self.access.settings.page_size).where(self.entity.filter)

    @property
    def brief(self) -> Question:
        """The same for keys and times alone."""
        return Question(self.name, (self.key, MODIFIED), (), page=self.access.settings.page_size).where(
            self.entity.filter
        )

    def key_of(self, row: Row) -> str:
        """Return the key of a record, empty where it has none."""
        value = row.get(self.key)
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""

    def keep(self, rows: Iterable[Row]) -> None:
        """Keep records as they were read, within a transaction of the caller's."""
        for row in rows:
            self.report.read += 1
            if key := self.key_of(row):
                kept = {name: row[name] for name in self.select if row.get(name) is not None}
                self.changed += self.access.mirror.put(self.name, key, modified_of(row), kept)
            else:
                self.keyless += 1
        self.report.stage = Stage.READING
        self.access.on_progress(self.report)

    def done(self) -> None:
        """Show that there is nothing more to read for now."""
        self.report.stage = Stage.READ
        if self.report.read:
            self.access.on_progress(self.report)

    async def page_behind(self, question: Question, last: str | None) -> list[Row]:
        """Return the page of a walk by key behind one, empty at the end; raise SourceError for what is no walk."""
        rows = await self.insist(in_order_of(question.where(after_key(self.key, last)), self.key))
        if rows:
            self._check(rows, last)
        return rows

    async def insist(self, question: Question) -> list[Row]:
        """Return a page, asked for once more where it is empty."""
        for _ in range(_EMPTY_PAGES):
            if rows := (await self.access.web.ask(question)).value:
                return rows
        return []

    def _check(self, rows: Sequence[Row], last: str | None) -> None:
        keys = [key for row in rows if (key := self.key_of(row))]
        if not keys:
            raise SourceError(f"{self.name}: no record of the source has a {self.key}.")
        if last in keys:
            raise SourceError(
                f"{self.name}: the source does not heed a filter by {self.key}, so that it cannot be read."
            )
        if not is_in_order(keys):
            raise SourceError(f"{self.name}: the source does not order by {self.key}, so that it cannot be read.")

    async def by_keys(self, keys: Sequence[str]) -> set[str]:
        """Read records by their keys; return the keys of those that the source says it does not have."""
        return await self.confirm(await self.ask_for(keys))

    async def ask_for(self, keys: Sequence[str]) -> list[str]:
        """Read records by their keys; return the keys that did not come."""
        absent: list[str] = []
        for batch in in_batches(keys, self.access.settings.keys_a_request):
            rows = await self._some(batch)
            with self.access.mirror.transaction():
                self.keep(rows)
            absent += sorted(set(batch) - {self.key_of(row) for row in rows})
        return absent

    async def confirm(self, absent: Sequence[str]) -> set[str]:
        """Ask for records by their addresses: what a filter does not find may only have been left out of an answer."""
        return {key for key in absent if await self._is_gone(key)}

    async def _some(self, keys: Sequence[str]) -> list[Row]:
        try:
            return (
                await self.access.web.ask(self.question.where(among(self.key, keys, spelt_out=self._spells_out)))
            ).value
        except Refused as refused:
            if self._spells_out or refused.status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED}:
                raise
            self._spells_out = True
        return await self._some(keys)

    async def _is_gone(self, key: str) -> bool:
        if self.entity.filter:
            rows = await self.insist(self.question.where(among(self.key, [key], spelt_out=True)))
        else:
            row = await self.access.web.one(self.name, key, self.select)
            rows = [] if row is None else [row]
        with self.access.mirror.transaction():
            self.keep(rows)
        return not rows

    def forget(self, keys: Iterable[str]) -> None:
        """Forget records that are gone, within a transaction of the caller's."""
        for key in keys:
            self.removed += self.access.mirror.remove(self.name, key)


def modified_of(row: Row) -> str:
    """Return the time of change of a record as the source spells it, empty where there is none."""
    value = row.get(MODIFIED)
    return value if isinstance(value, str) else ""


def in_order_of(question: Question, order: str) -> Question:
    """Return the same question, ordered."""
    return replace(question, order=order)
