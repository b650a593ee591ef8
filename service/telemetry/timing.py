"""Request time per layer: for the `Server-Timing` header, and as totals for the metrics."""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Layer(StrEnum):
    """The layers of a request, in order of execution."""

    AUTH = "auth"  # authentication
    TURN = "turn"  # waiting for a slot
    QUERY = "query"  # parameters, scope, search body
    ELASTICSEARCH = "elasticsearch"  # from the first byte of the search sent to the last byte of its response
    SPLICE = "splice"  # from the search response to the parts of ours
    ENCODE = "encode"  # compression
    WRITE = "write"  # until the connection has accepted the last byte, as fast as the client reads


class Timer:
    """The seconds of one request by layer."""

    __slots__ = ("_last", "seconds")

    def __init__(self) -> None:
        """Start the timer."""
        self.seconds: dict[Layer, float] = {}
        self._last = time.perf_counter()

    def record(self, layer: Layer) -> None:
        """Add the time since the last call to a layer."""
        now = time.perf_counter()
        self.seconds[layer] = self.seconds.get(layer, 0.0) + now - self._last
        self._last = now

    def header(self) -> str:
        """Return the value of `Server-Timing`, in milliseconds; excludes `write`, which happens later."""
        return ", ".join(f"{layer};dur={seconds * 1000:.3f}" for layer, seconds in self.seconds.items())


@dataclass
class TimingTotal:
    """The number of requests through a layer, and the seconds spent in it."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class TimingTotals:
    """The totals of all requests, by path template and layer."""

    totals: dict[tuple[str, Layer], TimingTotal] = field(default_factory=lambda: defaultdict(TimingTotal))

    def add(self, path: str, timer: Timer) -> None:
        """Add one request."""
        for layer, seconds in timer.seconds.items():
            total = self.totals[path, layer]
            total.count += 1
            total.seconds += seconds

    def rows(self) -> Iterator[tuple[str, Layer, TimingTotal]]:
        """Yield path template, layer and total."""
        for (path, layer), total in self.totals.items():
            yield path, layer, total
