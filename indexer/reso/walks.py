"""The walks over one entity of a source: everything by key, what changed by time and key, and all keys compared.

How far a walk has come is noted in the mirror with what it brought. None of them uses `$skip`: records that vanish
meanwhile would move others past it.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import RefusedError
from indexer.reso.odata import after_moment, moment, spelt
from indexer.reso.reader import in_order_of, modified_of
from indexer.reso.seen import seen_keys
from indexer.reso.standing import Standing, advanced, place_of
from indexer.shares import allowed
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from indexer.reso.mirror import Mirror
    from indexer.reso.odata import Question
    from indexer.reso.reader import Reader, Row
    from indexer.reso.standing import Place

# A comparison that was cut short by the source is made again.
_COMPARISONS = 3


class Walks:
    """The walks of one reader."""

    def __init__(self, reader: Reader) -> None:
        """Go on where the mirror says that an earlier run was."""
        self.reader = reader
        self._mirror, self._settings = reader.access.mirror, reader.access.settings
        self._web = reader.access.web
        self._name = f"standing {reader.name}"
        noted = self._mirror.note(self._name)
        self.standing = Standing("") if noted is None else msgspec.convert(noted, Standing)
        if self.standing.refused:  # perhaps the limit is another now
            self.standing.compared = 0.0

    async def mark(self) -> None:
        """Take the newest change of all as the one to follow from. The records' clock counts, not the source's own."""
        if not self.standing.since:
            now = self._web.now
            question = in_order_of(replace(self.reader.brief, top=1, page=None), f"{MODIFIED} desc")
            rows = await self.reader.insist(question.where(f"{MODIFIED} le {spelt(now)}"))
            newest = moment(modified_of(rows[0])) if rows else None
            self.standing.since = spelt(min(newest or now, now) - self._overlap)

    @property
    def _overlap(self) -> dt.timedelta:
        return dt.timedelta(seconds=self._settings.overlap_seconds)

    def _note(self) -> None:
        self._mirror.write_note(self._name, msgspec.to_builtins(self.standing))

    async def load(self) -> None:
        """Read everything once, by key; what changes behind the walk is left to those who follow."""
        await self.mark()
        standing, reader = self.standing, self.reader
        while not standing.loaded:
            rows = await reader.page_behind(reader.question, standing.last)
            with self._mirror.transaction():
                reader.keep(rows)
                standing.last = _last_key(reader, rows)
                standing.loaded = not rows
                self._note()

    async def follow(self) -> None:
        """Read what changed lately, by time and key: records may share a time."""
        question = in_order_of(self.reader.question, f"{MODIFIED},{self.reader.key}")
        at, is_full = self.standing.place, True
        while is_full:
            rows, is_full = await self._page(question.where(self._behind(at)))
            at = advanced(self.reader, at, rows, is_full=is_full)
            with self._mirror.transaction():
                self.reader.keep(rows)
                self._move_behind(rows)
                if not is_full:
                    self.standing.end(time.time(), self._settings.overlap_seconds)
                self._note()

    def _behind(self, at: Place | None) -> str:
        return f"{MODIFIED} ge {self.standing.since}" if at is None else after_moment(self.reader.key, at)

    async def _page(self, question: Question) -> tuple[list[Row], bool]:
        """Return a page, and whether more may come behind it: to find out later than it could costs one request."""
        page = await self._web.ask(question)
        is_full = page.next_link is not None or len(page.value) >= self._settings.page_size
        return page.value, is_full and bool(page.value)

    def _move_behind(self, rows: list[Row]) -> None:
        """Go on from there after a kill. A time to come would hide all changes until then."""
        now = self._web.now
        for row in reversed(rows):
            if (reached := moment(modified_of(row))) is not None and reached <= now:
                self.standing.place = place_of(self.reader, row)
                return

    async def look_back(self) -> None:
        """Compare the times of what changed lately with what is known: a source may show a change late."""
        newest = moment(self.standing.newest or self.standing.since)
        since = spelt((newest or self._web.now) - self._overlap)
        question, at = in_order_of(self.reader.brief, f"{MODIFIED},{self.reader.key}"), None
        is_full = True
        while is_full:
            behind = f"{MODIFIED} ge {since}" if at is None else after_moment(self.reader.key, at)
            rows, is_full = await self._page(question.where(behind))
            at = advanced(self.reader, at, rows, is_full=is_full)
            await self._read_differing(rows)

    async def _read_differing(self, rows: list[Row]) -> None:
        """Read the records of which another time is known, or none."""
        times = {key: modified_of(row) for row in rows if (key := self.reader.key_of(row))}
        known = self._mirror.modified(self.reader.name, list(times)) if times else {}
        differing = [key for key, modified in times.items() if not modified or known.get(key) != modified]
        await self._forget(await self.reader.by_keys(differing))

    async def _forget(self, gone: set[str]) -> None:
        with self._mirror.transaction():
            self.reader.forget(gone)

    async def _may_differ(self) -> bool:
        """Whether the source has another number of records than came by, or does not say: a load may be cut short."""
        count = (await self._web.ask(replace(self.reader.brief, top=1, page=None, counts=True))).count
        return count != self._mirror.count("record", self.reader.name)

    async def compare_unless_whole(self) -> None:
        """Compare all keys behind a load if their number differs; else only when that is due."""
        if not await self._may_differ():
            self.note_comparison(time.time())

    def note_comparison(self, at: float, refused: str | None = None) -> None:
        """Note when all keys were compared, in seconds since 1970, 0 to have it done, and why nothing was removed."""
        with self._mirror.transaction():
            self.standing.compared, self.standing.refused = at, refused
            self._note()

    @staticmethod
    def begin_anew(mirror: Mirror, name: str) -> None:
        """Let an entity be loaded again, within a transaction of the caller's; what is known of it stays till then."""
        mirror.forget_note(f"standing {name}")

    def is_comparison_due(self) -> bool:
        """Whether it is time to compare all keys."""
        return time.time() - self.standing.compared >= self._settings.reconcile_hours * 3600

    async def compare(self) -> None:
        """Compare all keys and times; what the source has no more is forgotten, each key asked for once more.

        Where more would go than the settings allow nothing goes, and `standing.refused` says so.
        """
        began = time.time()
        try:
            await self._compare()
        except RefusedError as refusal:
            self.note_comparison(began, str(refusal))
        else:
            self.note_comparison(began)

    async def _compare(self) -> None:
        for _ in range(_COMPARISONS):
            missing = await self._missing()
            absent = await self.reader.ask_for(missing)
            self._refuse_more_than_allowed(len(absent))
            await self._forget(await self.reader.confirm(absent))
            if len(absent) == len(missing):
                break

    async def _missing(self) -> list[str]:
        """Walk over all keys, read what differs, and return the known keys that did not come by."""
        last: str | None = None
        with seen_keys(self._mirror, self.reader.name) as seen:
            while rows := await self.reader.page_behind(self.reader.brief, last):
                last = _last_key(self.reader, rows)
                seen.add(key for row in rows if (key := self.reader.key_of(row)))
                await self._read_differing(rows)
            return seen.missing()

    def _refuse_more_than_allowed(self, missing: int) -> None:
        known, share = self._mirror.count("record", self.reader.name), self._settings.removal_limit
        if missing > allowed(share, known):
            raise RefusedError(
                f"{self.reader.name}: the source lacks {missing:,} of {known:,} known records, more than the share of "
                f"{share} that BROKERAGE_RESO_REMOVAL_LIMIT allows. None was removed."
            )


def _last_key(reader: Reader, rows: list[Row]) -> str | None:
    keys = [key for row in rows if (key := reader.key_of(row))]
    return keys[-1] if keys else None
