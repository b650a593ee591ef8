"""The checkpoint of an entity: how far it was loaded, followed and compared."""

import datetime as dt

import msgspec

from indexer.errors import SourceError
from indexer.reso.source_time import SyncPosition, format_source_time, parse_source_time
from indexer.reso.sync.entity_reader import EntityReader, SourceRow
from indexer.reso.sync.page_order import is_sorted_by_time

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
