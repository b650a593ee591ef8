"""The limits that a source sets to its readers: requests and bytes in any second, minute, hour and day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from indexer.reso.settings import ResoSettings

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MIB = 1024**2


class LimitWindow(NamedTuple):
    """At most so many requests, or bytes, in any so many seconds; `name` is what an operator calls it."""

    name: str
    seconds: int
    requests: int | None = None
    bytes: int | None = None


class SourceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a source, `[dialect.limits]` in its map; 0: none."""

    requests_per_second: int = 0
    requests_per_minute: int = 0
    requests_per_hour: int = 0
    requests_per_day: int = 0
    mib_per_hour: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a negative limit."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} cannot be used: it must be at least 0")

    def overridden(self, settings: ResoSettings) -> SourceLimits:
        """Return the limits with those that the settings give instead."""
        return msgspec.structs.replace(
            self,
            requests_per_hour=settings.hourly_requests or self.requests_per_hour,
            requests_per_day=settings.daily_requests or self.requests_per_day,
            mib_per_hour=settings.hourly_mib or self.mib_per_hour,
        )

    def windows(self) -> Iterator[LimitWindow]:
        """Yield the limits that are set."""
        for unit, seconds in (("second", 1), ("minute", _MINUTE), ("hour", _HOUR), ("day", _DAY)):
            if count := getattr(self, f"requests_per_{unit}"):
                yield LimitWindow(f"{count:,} requests per {unit}", seconds, requests=count)
        if self.mib_per_hour:
            yield LimitWindow(f"{self.mib_per_hour:,} MiB per hour", _HOUR, bytes=self.mib_per_hour * _MIB)
