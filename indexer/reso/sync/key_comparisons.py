"""When the keys of all entities are compared with the source: in slices without events, else all at once, seldom."""

import time
from collections.abc import Collection, Iterator, Mapping

from indexer.reso.settings import ResoSettings
from indexer.reso.sync.entity_sync import EntitySync
from indexer.reso.sync.key_slices import KeySlices

_HOUR = 3600.0
# Of the time within which each key has to be compared again: rounds, waits for limits, and slices whose bounds move
# because the number of keys changes take the rest.
_CYCLE_SHARE = 0.65
# Of the requests that the limits allow: changes are followed with the others.
_REQUEST_SHARE = 0.5


class KeyComparisons:
    """The comparisons of one source."""

    def __init__(self, syncs: Mapping[str, EntitySync], settings: ResoSettings, requests_per_second: float) -> None:
        """Continue those of earlier runs. The rate is what the settings and the limits of the source allow."""
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
