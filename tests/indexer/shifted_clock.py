"""The indexer's clock, shifted in the process of the test."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

YEAR_AND_MORE = 400 * 86_400.0


@dataclass
class ShiftedTime:
    """What `indexer.clock` uses of the module `time`, ahead by some seconds."""

    ahead: float

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead * 1e9)

    def monotonic(self) -> float:
        """Return the monotonic time, which no setting of a clock changes."""
        return time.monotonic()


@dataclass
class FrozenTime:
    """What `indexer.clock` uses of the module `time`, at a second since 1970."""

    seconds: int

    def time_ns(self) -> int:
        return self.seconds * 1_000_000_000


@contextmanager
def shifted_clock(ahead: float) -> Iterator[ShiftedTime]:
    """Shift the indexer's clock; the shift may be changed meanwhile."""
    shifted = ShiftedTime(ahead)
    with patch("indexer.clock.time", shifted):
        yield shifted
