"""What a request costs in each layer: for the `Server-Timing` header, and as sums for the metrics."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Layer(StrEnum):
    """The layers of a request, in the order in which it goes through them."""

    TURN = "turn"  # waiting for a place
    AUTH = "auth"  # whose key it is
    QUERY = "query"  # parameters, scope, the body of the search
    ELASTICSEARCH = "elasticsearch"  # from the search's first byte sent to the answer's last byte received
    SPLICE = "splice"  # from the answer to the parts of the response
    ENCODE = "encode"  # compression, where the client asked for it
    WRITE = "write"  # until the connection has taken the last byte, as fast as the client reads


class Laps:
    """The seconds of one request by layer: each lap counts the time since the one before."""

    __slots__ = ("_last", "seconds")

    def __init__(self) -> None:
        """Start now."""
        self.seconds: dict[Layer, float] = {}
        self._last = time.perf_counter()

    def lap(self, layer: Layer) -> None:
        """Count the time since the last lap for a layer."""
        now = time.perf_counter()
        self.seconds[layer] = self.seconds.get(layer, 0.0) + now - self._last
        self._last = now

    def header(self) -> str:
        """Return the value of `Server-Timing`, in milliseconds; writing is not over when it is sent."""
        return ", ".join(f"{layer};dur={seconds * 1000:.3f}" for layer, seconds in self.seconds.items())


@dataclass
class Spent:
    """How often a layer was gone through, and the seconds spent in it."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class Ledger:
    """The sums of all requests, by path template and layer. Plain numbers: adding to them is all a request pays."""

    spent: dict[tuple[str, Layer], Spent] = field(default_factory=lambda: defaultdict(Spent))

    def add(self, path: str, laps: Laps) -> None:
        """Add one request."""
        for layer, seconds in laps.seconds.items():
            spent = self.spent[path, layer]
            spent.count += 1
            spent.seconds += seconds

    def rows(self) -> Iterator[tuple[str, Layer, Spent]]:
        """Yield path template, layer and sums."""
        for (path, layer), spent in self.spent.items():
            yield path, layer, spent
