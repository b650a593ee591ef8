"""The times of tables that have no offset, and what their time zone leaves open.

When clocks go back, an hour comes twice; when they go forward, an hour does not exist. Of `updated_at`, such a time
only says in which period a line is, and within it the lines count in the order in which they arrive: no reading of the
times keeps the last state of a record that changes twice in the repeated hour. What is left open is counted.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from indexer.clock import epoch_microseconds, epoch_time
from indexer.source.lines import Period
from mappings.open_houses import find_time_zone

Ambiguous = Literal["earlier", "later", "refuse"]

_MICROSECONDS = 1_000_000


def zone(name: str) -> ZoneInfo:
    """Return a time zone; raise ValueError for an unknown one."""
    if (found := find_time_zone(name)) is None:
        raise ValueError(f"`time_zone` is {name!r}: use a name such as America/New_York")
    return found


class Doubt(Enum):
    """What is not known of a time without an offset."""

    ZONE = "its zone"
    HOUR = "which of two hours it is in"
    EXISTENCE = "when it was, since it does not exist"


class Instant(NamedTuple):
    """A time with an offset; with a doubt, what it is read as, and the period in which it is."""

    time: dt.datetime
    doubt: Doubt | None = None
    period: Period | None = None


class LocalZone:
    """The zone of times without an offset, UTC if none is given, and which of two hours `ambiguous` means."""

    def __init__(self, name: str | None, ambiguous: Ambiguous | None) -> None:
        """Raise ValueError for an unknown zone."""
        self.name, self.ambiguous = name, ambiguous
        self._zone = dt.UTC if name in {None, "UTC"} else zone(str(name))

    def instant(self, given: dt.datetime, *, is_order: bool) -> Instant:
        """Return the instant of a time; `is_order` is for `updated_at`, which orders the states of a record.

        Raises ValueError, which completes "the text ...", for a time that is to be refused.
        """
        if given.tzinfo is not None:
            return Instant(given)
        first, second = given.replace(tzinfo=self._zone), given.replace(tzinfo=self._zone, fold=1)
        if (before := first.utcoffset()) == (after := second.utcoffset()):
            return Instant(first, Doubt.ZONE if self.name is None else None)
        is_twice = (before or dt.timedelta()) > (after or dt.timedelta())
        if self.ambiguous == "refuse":
            raise ValueError(self._refusal(is_twice=is_twice))
        changed, hour = self._changed(first, second), abs(int(second.timestamp() - first.timestamp()))
        if is_twice:
            period = _period(changed - hour, changed + hour, by_arrival=self.ambiguous is None)
            return Instant(second if self.ambiguous == "later" else first, Doubt.HOUR, period)
        # Before all times that exist after the change, and after all before it.
        period = _period(changed - 1, changed)
        return Instant(epoch_time(period.start) if is_order else first, Doubt.EXISTENCE, period)

    def _changed(self, first: dt.datetime, second: dt.datetime) -> int:
        """Return when the clocks change, in seconds since 1970, of a time that they leave open."""
        low, high = sorted((int(first.timestamp()), int(second.timestamp())))
        before = self._offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._offset(middle) == before else (low, middle)
        return high

    def _offset(self, seconds: int) -> dt.timedelta | None:
        return dt.datetime.fromtimestamp(seconds, self._zone).utcoffset()

    def _refusal(self, *, is_twice: bool) -> str:
        if is_twice:
            choice = '`ambiguous` to "earlier" or "later"'
            return f"is in the hour that comes twice in {self.name}: add the offset, or set {choice}"
        return f"does not exist in {self.name}, where the clocks went forward"


def _period(start: int, end: int, *, by_arrival: bool = True) -> Period:
    return Period(start * _MICROSECONDS, end * _MICROSECONDS, by_arrival)


@dataclass
class _Noted:
    """The times with a doubt that a pass has read: how many, of which columns, and the first as text and as read."""

    example: tuple[str, str]
    count: int = 0
    columns: dict[str, None] = field(default_factory=dict)


class LocalTimes:
    """The times of one column map that leave something open: counted, and put into the order of their lines."""

    def __init__(self) -> None:
        self._periods: dict[str, Period] = {}  # of each `updated_at` that is left open
        self.begin({})

    def begin(self, arrived: dict[str, int]) -> None:
        """Begin a pass; `arrived` gets the latest `updated_at` that was ordered by arrival, by identifier."""
        self._arrived = arrived
        self._noted: dict[tuple[Doubt, LocalZone], _Noted] = {}
        self._of_row = list[tuple[Instant, LocalZone, str, str]]()

    def begin_row(self) -> None:
        """Forget what was added of a row that could not be read, and by another look at the cells of the last one."""
        self._of_row.clear()

    def add(self, found: Instant, local: LocalZone, column: str, text: str, *, is_order: bool) -> None:
        """Add a time with a doubt; it counts once its row is read."""
        self._of_row.append((found, local, column, text))
        if is_order and found.period is not None:
            self._periods[found.time.isoformat()] = found.period

    def ordered(self, envelope: dict[str, Any], identifier: str) -> Period | None:
        """Return the period of an envelope's `updated_at`, and put it after the record's earlier lines of that period.

        None if nothing is left open.
        """
        for found, local, column, text in self._of_row:
            read_as = found.time.isoformat()
            noted = self._noted.setdefault((found.doubt or Doubt.ZONE, local), _Noted((text, read_as)))
            noted.count += 1
            noted.columns[column] = None
        if not self._periods or (period := self._periods.get(envelope.get("updated_at", ""))) is None:
            return None
        if period.by_arrival:
            name = str(envelope["record"].get(identifier))
            at, last = epoch_microseconds(dt.datetime.fromisoformat(envelope["updated_at"])), self._arrived.get(name)
            at = max(at, last + 1) if last is not None and period.has(last) else at
            self._arrived[name] = at
            envelope["updated_at"] = epoch_time(at).isoformat()
        return period

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each kind of doubt in the last pass, without a full stop."""
        for (doubt, local), noted in self._noted.items():
            is_one, columns = noted.count == 1, " and ".join(noted.columns)
            times, have, are = ("time", "has", "is") if is_one else ("times", "have", "are")
            text, read_as = noted.example
            subject, example = f"{noted.count:,} {times} of {columns}", f"such as {text!r}"
            if doubt is Doubt.ZONE:
                yield f"{subject} {have} no offset, {example}, and the map has no `time_zone`: UTC is taken"
            elif doubt is Doubt.HOUR and local.ambiguous is None:
                yield (
                    f"{subject} {are} in an hour that comes twice in {local.name}, {example}: lines of `updated_at` "
                    "count in the order in which they arrive, and other times are the earlier ones; `ambiguous` says "
                    "otherwise"
                )
            elif doubt is Doubt.HOUR:
                yield (
                    f"{subject} {are} in an hour that comes twice in {local.name}, {example}, read as {read_as} by "
                    f'ambiguous = "{local.ambiguous}"'
                )
            else:
                exist = "does not exist" if is_one else "do not exist"
                yield (
                    f"{subject} {exist} in {local.name}, {example}, read as {read_as}: correct `time_zone` if the "
                    "clock of the source does not go forward"
                )
