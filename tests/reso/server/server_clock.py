"""What the server takes for the time of its writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.reso.server.timestamps import format_timestamp, to_milliseconds

if TYPE_CHECKING:
    from random import Random

    from tests.reso.server.server_settings import ServerSettings


class ServerClock:
    """It moves with writes and where a test moves it, never by itself: many writes may share a moment."""

    def __init__(self, settings: ServerSettings, chance: Random) -> None:
        """Start where the settings say; `chance` makes the drift."""
        self._settings, self._chance = settings, chance
        self._ms = to_milliseconds(settings.clock_start)
        self._writes = 0

    @property
    def now(self) -> str:
        """The moment that the next write gets, drift aside."""
        return format_timestamp(time.time_ns() // 1_000_000 if self._settings.wall_clock else self._ms)

    def stamp(self) -> str:
        """Return the moment of a write, and count the write."""
        drift = self._chance.randint(0, self._settings.drift_ms) if self._settings.drift_ms else 0
        stamped = format_timestamp(to_milliseconds(self.now) - drift)
        self._writes += 1
        if self._writes % self._settings.tick_every == 0:
            self.advance(self._settings.tick_ms)
        return stamped

    def advance(self, ms: int) -> None:
        """Move by so many milliseconds; backwards too, as clocks that are set right do."""
        self._ms += ms

    def set(self, text: str) -> None:
        """Move to a moment."""
        self._ms = to_milliseconds(text)
