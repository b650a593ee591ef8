"""Who uses the processors while: of the service, Elasticsearch, honest readers, attackers, and of all else."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from bench.accounting import processor_seconds

ATTACKERS, ELSE = "attackers", "all else"
_TICK = os.sysconf("SC_CLK_TCK")
_BUSY_COLUMNS = (0, 1, 2, 5, 6)  # user, nice, system, interrupts; neither idle nor waiting for a disk


class ProcessorClock:
    """Processor seconds by phase and by who used them; the attackers are tasks of this process."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        """Count processes with their descendants, by name; a number of 0 is not counted."""
        self._roots = {name: pid for name, pid in roots.items() if pid}
        self._used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: Counter[str] = Counter()
        self._phase = ""
        self._last, self._at = self._read(), time.monotonic()

    def enter(self, phase: str) -> None:
        """Add what was used since the last call to the phase that ends, and begin another."""
        now, at = self._read(), time.monotonic()
        if self._phase:
            self._seconds[self._phase] += at - self._at  # type: ignore[assignment]
            for name, seconds in now.items():
                # A process that has ended has no seconds.
                self._used[self._phase][name] += max(seconds - self._last[name], 0)  # type: ignore[assignment]
        self._phase, self._last, self._at = phase, now, at

    def cores(self, phase: str) -> dict[str, float]:
        """Return how many processors each used on average in a phase."""
        seconds = self._seconds[phase]
        return {name: used / seconds for name, used in self._used[phase].items()} if seconds else {}

    def _read(self) -> dict[str, float]:
        known = processor_seconds(self._roots) | {ATTACKERS: time.process_time()}
        return known | {ELSE: _machine() - sum(known.values())}


def _machine() -> float:
    """Return the seconds that all processors of the machine were busy."""
    columns = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    return sum(int(columns[number]) for number in _BUSY_COLUMNS) / _TICK
