"""Follows a source by its EntityEvents: keys of what changed, in one sequence. What is not found any more is gone.

Events may come late: one with a lower number may show after one with a higher. So some behind the newest are asked for
again, and only those that are new among them are acted upon. What is lost for good is found by comparing all keys.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from indexer.errors import SourceError
from indexer.reso.odata import SEQUENCE, Question, literal
from indexer.reso.seen import SeenEvents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indexer.reso.mirror import Mirror
    from indexer.reso.reader import Reader, Row
    from indexer.reso.settings import ResoSettings
    from indexer.reso.web import Web

ENTITY = "EntityEvent"
_NOTE = "event"
# A page without rows is asked for again so often while the source says that there are more.
_ATTEMPTS = 4
# So often is asked for the end where there seem to be no events.
_ENDS = 2
_FIELDS = (SEQUENCE, "ResourceName", "ResourceRecordKey")


class Events:
    """The sequence of one source."""

    def __init__(self, web: Web, mirror: Mirror, readers: Mapping[str, Reader], settings: ResoSettings) -> None:
        """Read nothing yet."""
        self._web, self._mirror, self._readers, self._settings = web, mirror, readers, settings
        self._seen = SeenEvents(mirror)
        self._told_of: set[str] = set()

    @property
    def reached(self) -> int | None:
        """The highest number that was acted upon; None before a mark was taken."""
        noted = self._mirror.note(_NOTE)
        return None if noted is None else int(noted)

    async def tell_of(self, entity: str) -> bool:
        """Whether there ever was an event of an entity: some sources have them for a few entities only."""
        question = Question(ENTITY, _FIELDS, (), top=1).where(f"ResourceName eq {literal(entity)}")
        if entity not in self._told_of and (await self._web.ask(question)).value:
            self._told_of.add(entity)
        return entity in self._told_of

    def mark(self, end: int) -> None:
        """Take an end as the mark to follow from, before anything is loaded."""
        with self._mirror.transaction():
            self._mirror.write_note(_NOTE, end)

    async def end(self) -> int:
        """Return the highest number of all, 0 where there is none."""
        for _ in range(_ENDS):
            if rows := (await self._web.ask(Question(ENTITY, _FIELDS, (), f"{SEQUENCE} desc", top=1))).value:
                return max(_number(row) for row in rows)
        return 0

    async def follow(self) -> bool:
        """Act upon all events behind the mark; return False where the source has begun a new sequence."""
        reached = self.reached or 0
        at = max(0, reached - self._settings.event_margin)
        for _ in range(_ATTEMPTS):
            while rows := await self._page(at):
                at = max(_number(row) for row in rows)
                await self._act(rows)
            # An answer without rows may be a source's way to be busy.
            if (end := await self.end()) <= at:
                break
        if max(end, at) >= reached:
            return True
        # That there is no event at all proves nothing.
        return (last := await self.end()) >= reached or last == 0

    def begin_anew(self) -> None:
        """Follow from the beginning: once all keys were compared, so that a run that is killed does both again."""
        with self._mirror.transaction():
            self._seen.add((), forget_below=(self.reached or 0) + 1)
            self._mirror.write_note(_NOTE, 0)

    async def _page(self, at: int) -> list[Row]:
        question = Question(ENTITY, _FIELDS, (), SEQUENCE, page=self._settings.page_size)
        rows = (await self._web.ask(question.where(f"{SEQUENCE} gt {at}"))).value
        numbers = [_number(row) for row in rows]
        if numbers != sorted(numbers) or (numbers and numbers[0] <= at):
            raise SourceError(f"{ENTITY}: the source does not heed a filter or an order by {SEQUENCE}.")
        return rows

    async def _act(self, rows: list[Row]) -> None:
        """Read anew what the events of a page name, and note them with it."""
        numbers = [_number(row) for row in rows]
        unseen = self._seen.unseen(numbers)
        keys: dict[str, dict[str, None]] = defaultdict(dict)
        for row in rows:
            if _number(row) in unseen and row.get("ResourceName") in self._readers:
                keys[str(row["ResourceName"])][str(row.get("ResourceRecordKey"))] = None
        gone = {name: await self._readers[name].by_keys(list(each)) for name, each in keys.items()}
        reached = max(self.reached or 0, *numbers)
        with self._mirror.transaction():
            for name, each in gone.items():
                self._readers[name].forget(each)
            self._seen.add(unseen, forget_below=reached - self._settings.event_margin)
            self._mirror.write_note(_NOTE, reached)


def _number(row: Row) -> int:
    value = row.get(SEQUENCE)
    try:
        return int(value)  # type: ignore[arg-type]  # a number, or one as text
    except (TypeError, ValueError):
        raise SourceError(f"{ENTITY}: {SEQUENCE} is {value!r}, no number.") from None
