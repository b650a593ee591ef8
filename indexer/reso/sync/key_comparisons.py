"""Comparing the keys of all entities with the source: in slices without events, else all at once, seldom.

A slice is a range of keys of the mirror, a page of the source. So deletions are found without events and without long
comparisons. The bounds are keys of the mirror: a source that collates keys differently sends other keys than the mirror
has in the range, and those that it does not send are requested by key.
"""

import math
import time
from collections.abc import Collection, Iterator, Mapping

import msgspec

from indexer.errors import RefusedError
from indexer.reso.client.odata import ODataQuery, after_key_filter
from indexer.reso.mirror import END, CheckedRanges
from indexer.reso.settings import ResoSettings
from indexer.reso.sync.entity_reader import SourceRow
from indexer.reso.sync.entity_sync import EntitySync

_HOUR = 3600.0
# Of the time within which each key has to be compared again: rounds, waits for limits, and slices whose bounds move
# because the number of keys changes take the rest.
_CYCLE_SHARE = 0.65
# Of the requests that the limits allow: changes are followed with the others.
_REQUEST_SHARE = 0.5


class KeyComparisons:
    def __init__(self, syncs: Mapping[str, EntitySync], settings: ResoSettings, requests_per_second: float) -> None:
        self._syncs, self._hours, self._rate = syncs, settings.verify_hours, requests_per_second
        self._slices = {name: KeySlices(sync) for name, sync in syncs.items()}
        self._cycle_seconds = 0.0

    def plan(self, by_events: Collection[str]) -> str | None:
        """Set how long it takes to compare all keys of entities without events.

        Returns the message about it if that becomes longer than BROKERAGE_RESO_VERIFY_HOURS.
        """
        requests = sum(slices.count() for name, slices in self._slices.items() if name not in by_events)
        before, limit = self._cycle_seconds, self._hours * _HOUR
        self._cycle_seconds = max(limit * _CYCLE_SHARE, requests / (self._rate * _REQUEST_SHARE))
        if not self._hours or not before <= limit < self._cycle_seconds:
            return None
        return (
            f"Within the limits of the source, comparing all keys takes {self._cycle_seconds / _HOUR:.1f} hours, more "
            f"than BROKERAGE_RESO_VERIFY_HOURS={self._hours:g}: a record that was deleted there is served for so long."
        )

    async def run(self, sync: EntitySync, *, by_times: bool) -> None:
        """Compare all keys of an entity if that is due; else those whose turn it is, of one without events."""
        slices = self._slices[sync.reader.name]
        if sync.is_comparison_due():
            await sync.compare_keys()
            if not sync.state.refused:
                slices.restart(sync.state.compared)
        elif slices.oldest is None and not sync.state.refused:  # a load that was complete
            slices.restart(sync.state.compared)
        elif by_times and self._hours and sync.reader.form.has_key_ranges:
            await slices.compare_due(self._cycle_seconds)
        elif by_times and self._hours and not 0 <= time.time() - sync.state.compared < self._cycle_seconds:
            await sync.compare_keys()
            if not sync.state.refused:
                slices.restart(sync.state.compared)

    def refusals(self) -> Iterator[str]:
        """Yield why records that the source lacks were not removed."""
        for name, sync in self._syncs.items():
            if refused := sync.state.refused or self._slices[name].refused:
                yield refused

    @property
    def keys_checked(self) -> int | None:
        """When the keys that were compared longest ago were compared, in milliseconds since 1970; None: some never."""
        times = [slices.oldest for slices in self._slices.values()]
        known = [at for at in times if at is not None]
        return int(min(known) * 1000) if known and len(known) == len(times) else None


# Of a page: new records of the source fit into it, too.
_SLICE_SHARE = 0.9


class _Cycle(msgspec.Struct):
    """One comparison of all keys, kept in the mirror."""

    started: float = 0.0  # seconds since 1970
    after: str = ""  # the last key of the slices that were compared
    done: int = 0  # slices
    removed: int = 0  # records, since slices were last refused
    is_finished: bool = True
    refused: str | None = None  # why a slice of this cycle removed nothing
    refused_before: str | None = None  # the same of the cycle before, until this one is finished


class KeySlices:
    """Compares the keys of one entity within every so many seconds."""

    def __init__(self, sync: EntitySync) -> None:
        self._sync, self._reader = sync, sync.reader
        self._mirror = sync.reader.source.mirror
        self._ranges = CheckedRanges(self._mirror, sync.reader.name)
        self._note = f"slices {sync.reader.name}"
        self._cycle = msgspec.convert(self._mirror.read_note(self._note) or {}, _Cycle)
        self._size = max(1, int(sync.reader.page_size * _SLICE_SHARE))

    @property
    def refused(self) -> str | None:
        """Why slices removed nothing, None if they did."""
        return self._cycle.refused or self._cycle.refused_before

    @property
    def oldest(self) -> float | None:
        """When the keys that were compared longest ago were compared, in seconds since 1970; None: some never were."""
        return self._ranges.oldest()

    def count(self) -> int:
        """Return how many slices, and so requests, one cycle takes."""
        return max(1, math.ceil(self._mirror.count("record", self._reader.name) / self._size))

    def restart(self, at: float) -> None:
        """Start a new cycle after all keys were compared at a time, in seconds since 1970."""
        with self._mirror.transaction():
            self._ranges.record("", END, at)
            self._cycle = _Cycle(started=at, is_finished=False)
            self._save()

    def _save(self) -> None:
        self._mirror.write_note(self._note, msgspec.to_builtins(self._cycle))

    async def compare_due(self, cycle_seconds: float) -> None:
        """Compare the slices that are due, if all are to be compared within so many seconds, evenly."""
        now, planned = time.time(), self._cycle.started + cycle_seconds
        if self._cycle.is_finished and not planned - cycle_seconds <= now < planned:
            started = planned if planned <= now < planned + cycle_seconds else now
            # Else a share of all records could go in each cycle.
            removed = self._cycle.removed if self.refused else 0
            self._cycle = _Cycle(started=started, removed=removed, is_finished=False, refused_before=self.refused)
        # A clock that was ahead ends a cycle at once.
        elapsed = now - self._cycle.started if now >= self._cycle.started else cycle_seconds
        due = math.floor(elapsed / cycle_seconds * self.count()) + 1
        while not self._cycle.is_finished and self._cycle.done < due:
            await self._compare_next()

    async def _compare_next(self) -> None:
        """Compare a slice; above the limit of removals it removes nothing, and its keys count as not compared."""
        cycle, started = self._cycle, time.time()
        known = self._mirror.keys(self._reader.name, cycle.after, self._size)
        upto = known[-1] if len(known) == self._size else END
        refusal = None
        try:
            rows = await self._rows(cycle.after, upto)
            cycle.removed += await self._sync.compare_part(rows, known, cycle.removed)
        except RefusedError as error:
            refusal = str(error)
        with self._mirror.transaction():
            if refusal is None:
                self._ranges.record(cycle.after, upto, started)
            self._advance(upto, refusal)
            self._save()

    def _advance(self, upto: str, refusal: str | None) -> None:
        cycle = self._cycle
        cycle.after, cycle.done, cycle.refused = upto, cycle.done + 1, refusal or cycle.refused
        if upto == END:
            cycle.is_finished, cycle.refused_before = True, None

    async def _rows(self, after: str, upto: str) -> list[SourceRow]:
        """Return the keys and timestamps of a range of keys at the source."""
        literal = self._reader.form.key_literal
        query = self._reader.keys_query.where(self._reader.form.live).ordered_by(self._reader.key)
        query = query.where("" if upto == END else f"{self._reader.key} le {literal(upto)}")
        found: list[SourceRow] = []
        last, has_more = after or None, True
        while has_more:
            beyond = after_key_filter(self._reader.key, None if last is None else literal(last))
            rows, has_more = await self._page(query.where(beyond))
            reached = self._reader.last_key(rows)
            has_more = has_more and reached not in {None, last}
            found, last = found + rows, reached
        return found

    async def _page(self, query: ODataQuery) -> tuple[list[SourceRow], bool]:
        """Return a page, requested again if it is empty, and whether another may follow."""
        client, wanted = self._reader.source.client, self._reader.page_size
        page = await client.fetch_page(query)
        if not page.value:
            page = await client.fetch_page(query)
        if page.next_link is not None and page.value:  # the pages of the source are smaller
            self._size = max(1, int(len(page.value) * _SLICE_SHARE))
        return page.value, page.next_link is not None or len(page.value) >= wanted
