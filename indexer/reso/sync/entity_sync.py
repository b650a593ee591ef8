"""Synchronization of one entity: initial load by key, changes by timestamp and key, comparison of all keys.

Checkpoints are stored in the mirror together with the records they cover. Pagination never uses `$skip`, because a
record that disappears would shift others past the cursor.
"""

import datetime as dt
import time
from dataclasses import replace

import msgspec

from indexer.errors import RefusedError
from indexer.reporting.report import tolerated_count
from indexer.reso.client.odata import SyncPosition, format_source_time, parse_source_time
from indexer.reso.mapping.values import is_without_offset
from indexer.reso.mirror import Mirror, seen_keys
from indexer.reso.source_map import BY_LINKS, BY_TIMES
from indexer.reso.sync.entity_reader import EntityReader, SourceRow
from indexer.reso.sync.page_walks import EntitySyncState, PageWalks

# What a clock may be put back by at most.
_REPEATED = dt.timedelta(hours=1)
# A comparison during which the source left records out is repeated.
_MAX_COMPARISONS = 3


class EntitySync:
    def __init__(self, reader: EntityReader) -> None:
        self.reader, self._form, self._walks = reader, reader.form, PageWalks(reader)
        self._loaded_until: SyncPosition = ("", "")
        self._mirror, self._settings = reader.source.mirror, reader.source.settings
        self._client = reader.source.client
        self._note = _note_name(reader.name)
        noted = self._mirror.read_note(self._note)
        self.state = EntitySyncState("") if noted is None else msgspec.convert(noted, EntitySyncState)
        if self.state.refused:  # compare again: the limit may have been raised
            self.state.compared = 0.0

    async def set_start(self) -> None:
        """Set the timestamp to follow from, before anything is read; raise SourceRejectedError without access."""
        if not self.state.since:
            newest_or_now = self._newest_time if self._form.changes == BY_TIMES else self._time_of_access
            self.state.since = format_source_time(await newest_or_now() - self._overlap)

    async def _newest_time(self) -> dt.datetime:
        """Return the timestamp of the newest record, since the source's own clock may differ."""
        now, modified = self._client.source_time, self._form.modified
        newest_first = replace(self.reader.keys_query, top=1, page_size=None).ordered_by(f"{modified} desc")
        rows = await self.reader.fetch_nonempty(newest_first.where(f"{modified} le {format_source_time(now)}"))
        newest = parse_source_time(self.reader.time_of(rows[0])) if rows else None
        return min(newest or now, now)

    async def _time_of_access(self) -> dt.datetime:
        """Return the source's time, of a source that is read in its own order; the load sets an earlier start."""
        now = self._client.source_time
        await self.reader.fetch(replace(self.reader.keys_query, top=1, page_size=None))
        return now

    @property
    def _overlap(self) -> dt.timedelta:
        return dt.timedelta(seconds=self._settings.overlap_seconds)

    def _save(self) -> None:
        self._mirror.write_note(self._note, msgspec.to_builtins(self.state))

    async def load(self) -> None:
        """Read all records; changes made meanwhile are picked up by following."""
        await self.set_start()
        state, reader = self.state, self.reader
        if state.loaded:
            return
        async for page in self._walks.all_pages(reader.records_query, state.last):
            with self._mirror.transaction():
                reader.store(page.rows)
                state.last, state.loaded = page.position, page.is_last
                self._note_newest(page.rows)
                self._save()

    def _note_newest(self, rows: list[SourceRow]) -> None:
        """Of a source that is read in its own order, keep the newest timestamp, and follow from before it."""
        if self._form.changes == BY_LINKS:
            self._loaded_until = max(self._loaded_until, self._newest_of(rows), key=_time_order)
            newest, since = parse_source_time(self._loaded_until[0]), parse_source_time(self.state.since)
            if self.state.loaded and newest is not None and since is not None:
                self.state.since = format_source_time(min(since, newest - self._overlap))

    async def follow_changes(self) -> None:
        """Read changed records by timestamp and key, because records may share a timestamp; or by next links."""
        if self._form.changes == BY_LINKS:
            await self._follow_links()
            return
        async for rows, is_full in self._walks.pages_by_time(
            self.reader.records_query, self.state.since, self.state.place
        ):
            with self._mirror.transaction():
                self.reader.store(rows)
                self._save_position(rows)
                if not is_full:
                    self.state.finish_pass(time.time(), self._settings.overlap_seconds)
                self._save()

    async def _follow_links(self) -> None:
        """Read changed records in the source's order; the checkpoint advances only if all were found."""
        newest = self.state.place or ("", "")
        async for rows in self._walks.changes_by_links(self.reader.records_query, newest[0] or self.state.since):
            newest = max(newest, self._newest_of(rows), key=_time_order)
            with self._mirror.transaction():
                self.reader.store(rows)
        if self._walks.is_complete:
            with self._mirror.transaction():
                self.state.place = newest if newest[0] else None
                self.state.finish_pass(time.time(), self._settings.overlap_seconds)
                self._save()

    def _newest_of(self, rows: list[SourceRow]) -> SyncPosition:
        """Return the newest position that is not in the future: such a one would hide all changes until then."""
        now = self._client.source_time
        positions = [self.reader.position_of(row) for row in rows]
        known = [position for position in positions if (at := parse_source_time(position[0])) is not None and at <= now]
        return max(known, key=_time_order, default=("", ""))

    def _save_position(self, rows: list[SourceRow]) -> None:
        """Advance the checkpoint, except to a timestamp in the future: it would hide all changes until then."""
        now = self._client.source_time
        self.state.is_local |= any(is_without_offset(self.reader.time_of(row)) for row in rows)
        for row in reversed(rows):
            if (modified := parse_source_time(self.reader.time_of(row))) is not None and modified <= now:
                self.state.place = self.reader.position_of(row)
                return

    async def recheck_recent(self) -> None:
        """Compare the timestamps of recent changes with the mirror: some changes become visible late."""
        newest = parse_source_time(self.state.newest or self.state.since)
        overlap = max(self._overlap, _REPEATED) if self.state.is_local else self._overlap
        since = format_source_time((newest or self._client.source_time) - overlap)
        if self._form.changes == BY_LINKS:
            async for rows in self._walks.changes_by_links(self.reader.keys_query, since):
                await self._refresh_differing(rows)
            return
        async for rows, _ in self._walks.pages_by_time(self.reader.keys_query, since):
            await self._refresh_differing(rows)

    async def _refresh_differing(self, rows: list[SourceRow]) -> None:
        """Read the records that differ from the mirror's or are missing there; remove those marked as deleted."""
        gone = {self.reader.key_of(row) for row in rows if self._form.is_gone(row)}
        states = {key: self.reader.state_of(row) for row in rows if (key := self.reader.key_of(row)) not in {"", *gone}}
        known = self._mirror.modification_times(self.reader.name, list(states)) if states else {}
        differing = [key for key, state in states.items() if not state or known.get(key) != state]
        await self._remove(gone | await self.reader.refresh_keys(differing))

    async def _remove(self, gone: set[str]) -> None:
        with self._mirror.transaction():
            self.reader.remove(gone)

    async def _may_differ(self) -> bool:
        """Whether the source reports another number of records than the mirror has, or none: a load may fall short."""
        query = replace(self.reader.keys_query, top=1, page_size=None, with_count=True).where(self._form.live)
        return (await self._client.fetch_page(query)).count != self._mirror.count("record", self.reader.name)

    async def compare_if_incomplete(self) -> None:
        """After a load, schedule the comparison of all keys at once only if the record counts differ."""
        if not await self._may_differ():
            self.record_comparison(time.time())

    def record_comparison(self, at: float, refused: str | None = None) -> None:
        """Store when all keys were compared, in seconds since 1970 (0: due now), and why nothing was removed."""
        with self._mirror.transaction():
            self.state.compared, self.state.refused = at, refused
            self._save()

    @staticmethod
    def reset(mirror: Mirror, name: str) -> None:
        """Schedule a new load of an entity, within the caller's transaction; its records stay until then."""
        mirror.delete_note(_note_name(name))

    def is_comparison_due(self) -> bool:
        """Whether it is time to compare all keys; a comparison in the future was made under a wrong clock."""
        return not 0 <= time.time() - self.state.compared < self._settings.reconcile_hours * 3600

    async def compare_keys(self) -> None:
        """Compare all keys and timestamps; remove records that the source lacks, each confirmed by a request.

        Above the limit of the settings nothing is removed, and `state.refused` has the reason.
        """
        started = time.time()
        try:
            await self._compare()
        except RefusedError as refusal:
            self.record_comparison(started, str(refusal))
        else:
            self.record_comparison(started)

    async def _compare(self) -> None:
        for _ in range(_MAX_COMPARISONS):
            missing = await self._missing()
            absent = await self.reader.fetch_keys(missing)
            self._check_removal_limit(len(absent))
            await self._remove(await self.reader.confirm_missing(absent))
            if len(absent) == len(missing):
                break

    async def _missing(self) -> list[str]:
        """Read all keys, refresh the records that differ, and return the known keys that the source did not list."""
        with seen_keys(self._mirror, self.reader.name) as seen:
            async for page in self._walks.all_pages(self.reader.keys_query, None):
                seen.add(key for row in page.rows if (key := self.reader.key_of(row)))
                await self._refresh_differing(page.rows)
            self._walks.require_all(seen.count())
            return seen.missing()

    async def compare_part(self, rows: list[SourceRow], known: list[str], removed: int) -> int:
        """Compare a part of all keys: read the records that differ, and remove those known keys that the source lacks.

        Returns how many were removed, after so many others; raise RefusedError if that is more than the limit allows.
        """
        await self._refresh_differing(rows)
        listed = {self.reader.key_of(row) for row in rows}
        absent = await self.reader.fetch_keys([key for key in known if key not in listed])
        if absent:
            self._check_removal_limit(len(absent), removed)
        gone = await self.reader.confirm_missing(absent)
        await self._remove(gone)
        return len(gone)

    def _check_removal_limit(self, missing: int, removed: int = 0) -> None:
        """Raise RefusedError if more records are missing than may be removed, after others of the same comparison."""
        known, share = self._mirror.count("record", self.reader.name), self._settings.removal_limit
        if missing + removed > tolerated_count(share, known + removed):
            before = f" after {removed:,} that were removed" if removed else ""
            raise RefusedError(
                f"{self.reader.name}: the source lacks {missing:,} of {known:,} known records{before}, more than the "
                f"share of {share} that BROKERAGE_RESO_REMOVAL_LIMIT allows. None were removed."
            )


def _time_order(position: SyncPosition) -> tuple[dt.datetime, str]:
    return parse_source_time(position[0]) or dt.datetime.min.replace(tzinfo=dt.UTC), position[1]


def _note_name(entity: str) -> str:
    return f"standing {entity}"
