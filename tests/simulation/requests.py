"""The requests of readers: when each ended, how long it took, and its outcome."""

import statistics
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

GOOD = "good"
_STEP_SECONDS = 0.1


class ObservedRequest(NamedTuple):
    """One request; `at` is when its response was complete, by `time.monotonic`."""

    at: float
    seconds: float
    kind: str  # GOOD, or why it failed, such as "503"
    path: str


@dataclass
class RequestTotals:
    """All requests in the order in which they ended."""

    seen: list[ObservedRequest] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    untold: int = 0  # answers of 503 or 504 that did not say when to come back

    def add(self, started: float, kind: str, path: str) -> None:
        now = time.monotonic()
        self.seen.append(ObservedRequest(now, now - started, kind, path))

    def between(self, begins: float, ends: float, path: str | None = None) -> list[ObservedRequest]:
        """Return the requests that began and ended within a period, of one path or of all."""
        return [
            one for one in self.seen if begins <= one.at - one.seconds and one.at <= ends and path in {None, one.path}
        ]

    def ended(self, begins: float, ends: float) -> list[ObservedRequest]:
        """Return the requests that ended within a period, including those that began before it."""
        return [one for one in self.seen if begins <= one.at <= ends]

    @property
    def failures(self) -> Counter[str]:
        return Counter(one.kind for one in self.seen if one.kind != GOOD)

    @property
    def slowest(self) -> float:
        return max((one.seconds for one in self.seen), default=0.0)

    @property
    def outage(self) -> float:
        """The longest time without a successful response, in seconds."""
        last = self.seen[-1].at if self.seen else self.began
        moments = [self.began, *(one.at for one in self.seen if one.kind == GOOD), last]
        return max(later - earlier for earlier, later in pairwise(moments))

    def median_rate(self, begins: float, ends: float) -> float:
        """Return the median number of successful responses per second within a period."""
        good = self._good()
        starts = [begins + number for number in range(max(1, int(ends - begins)))]
        return statistics.median(_within(good, start, start + 1) for start in starts)

    def regained(self, since: float, rate: float, window: float = 2.0) -> float | None:
        """Return after how many seconds the rate of successful responses has recovered."""
        good, start = self._good(), since
        while start + window <= self.seen[-1].at:
            if _within(good, start, start + window) >= rate * window:
                return start - since
            start += _STEP_SECONDS
        return None

    def _good(self) -> list[float]:
        return [one.at for one in self.seen if one.kind == GOOD]


def _within(moments: list[float], begins: float, ends: float) -> int:
    return bisect_left(moments, ends) - bisect_left(moments, begins)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; 0 of none."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else 0.0
