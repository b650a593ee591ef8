"""Moments relative to now, so that the default seven-day windows show data whenever the source is written."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from random import Random

MINUTE = 60_000  # milliseconds, as all moments here
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_EPOCH = dt.date(1970, 1, 1).toordinal()
_RECENT_SHARE = 0.3
_OLDEST = 730 * DAY


@dataclass(frozen=True, slots=True)
class SampleClock:
    """The moment that the source is written for, in milliseconds since 1970."""

    now: int

    @classmethod
    def at(cls, now: dt.datetime | None) -> SampleClock:
        """Return the clock of `now`, or of the present. A time without offset is taken as UTC."""
        moment = now or dt.datetime.now(dt.UTC)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return cls(int(aware.timestamp() * 1000))

    @property
    def latest(self) -> int:
        """The newest moment that a record may carry: a minute ago."""
        return self.now - MINUTE

    @property
    def year(self) -> int:
        """The calendar year of now."""
        return int(format_date(self.now)[:4])

    def recent(self, chance: Random) -> int:
        """Return a moment of the last seven days, less an hour for the way from writing to showing."""
        return self.latest - int(chance.random() * (7 * DAY - HOUR))

    def earlier(self, chance: Random) -> int:
        """Return a moment before the last seven days and after two years ago; the newer, the likelier."""
        return self.now - 7 * DAY - MINUTE - int(chance.random() ** 2 * (_OLDEST - 7 * DAY))

    def last_changed(self, chance: Random) -> int:
        """Return the time of a last change: 30 % of them lie in the last seven days."""
        return self.recent(chance) if chance.random() < _RECENT_SHARE else self.earlier(chance)


def format_timestamp(moment: int) -> str:
    """Spell a moment as ISO 8601 in UTC, to the millisecond."""
    return dt.datetime.fromtimestamp(moment / 1000, dt.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def format_date(moment: int) -> str:
    """Spell the day of a moment as YYYY-MM-DD."""
    return _day(moment // DAY)


@cache
def _day(days: int) -> str:
    return dt.date.fromordinal(_EPOCH + days).isoformat()
