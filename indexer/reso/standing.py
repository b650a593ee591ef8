"""How far the reading of an entity has come, and the times by which it goes on."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import SourceError
from indexer.reso.odata import moment, spelt
from indexer.reso.order import is_in_order_of_time
from indexer.reso.reader import modified_of
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from indexer.reso.reader import Reader, Row

# So far apart may the clocks of one source's machines be.
_OUT_OF_STEP = dt.timedelta(seconds=5)
_FRACTION = re.compile(r"\.\d+")

Place = tuple[str, str]  # a time as the source spells it, and a key


class Standing(msgspec.Struct):
    """How far the reading of an entity has come."""

    since: str  # the time from which on the next walk by time reads; empty before the first load
    loaded: bool = False
    last: str | None = None  # the last key of a load under way
    place: Place | None = None  # the last record of a walk by time that is to be gone on with
    newest: str = ""  # the time of the newest change that the last walk by time found
    found: float = 0.0  # when that was first found, in seconds since 1970
    compared: float = 0.0  # when all keys were last compared, in seconds since 1970
    refused: str | None = None  # why the last comparison removed nothing

    def end(self, now: float, quiet: float) -> None:
        """End a walk by time: the next one begins before what was the newest change when this one began.

        A record may change twice within one tick of the source's clock, which is as long as a second in some: read
        between the two it looks like after them. What was read when something newer had been seen already can not
        change under the same time any more; all else is read again, until nothing newer has come for `quiet` seconds.
        """
        newest = self.place[0] if self.place else self.newest
        if (before := moment(self.newest)) is not None:
            self.since = spelt(before - _OUT_OF_STEP)
        if newest != self.newest:
            self.newest, self.found = newest, now
        if now - self.found < quiet:
            self.place = None


def exact(modified: str) -> str:
    """Return a time as it can be asked for: as the source spells it if that is in UTC, else brought to it."""
    if modified.endswith("Z") or (parsed := moment(modified)) is None:
        return modified
    whole = parsed.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None).isoformat()
    fraction = _FRACTION.search(modified)  # of as many digits as there are, which may be more than we can count in
    return f"{whole}{fraction[0] if fraction else ''}Z"


def place_of(reader: Reader, row: Row) -> Place:
    """Return the place of a record in the order of changes."""
    return exact(modified_of(row)), reader.key_of(row)


def advanced(reader: Reader, at: Place | None, rows: list[Row], *, is_full: bool) -> Place | None:
    """Return the place of the last record of a page behind one; raise SourceError where that is no progress.

    A source that keeps finer times than it shows finds its last record again: that alone may come.
    """
    if not rows:
        return at
    place = place_of(reader, rows[-1])
    is_ordered = is_in_order_of_time([modified_of(row) for row in rows])
    if not is_ordered or "" in place or (is_full and place == at):
        raise SourceError(f"{reader.name}: the source does not heed a filter or an order by {MODIFIED}.")
    return place
