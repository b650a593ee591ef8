"""What processes use: memory over time and its growth, and the processors by who used them."""

import asyncio
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.accounting import processor_seconds, tree

_EVERY_SECONDS = 5.0
_SETTLING_SECONDS = 300.0  # the first minutes fill caches and pools
_MEGABYTE = 1e6
_HOUR = 3600.0
ATTACKERS, ELSE = "attackers", "all else"
_TICK = os.sysconf("SC_CLK_TCK")
_BUSY_COLUMNS = (0, 1, 2, 5, 6)  # user, nice, system, interrupts; neither idle nor waiting for a disk


@dataclass
class MemorySamples:
    """Samples (seconds, bytes) of the resident memory of each process, by label."""

    samples: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    async def watch(self, pids: Callable[[], Mapping[str, int]]) -> None:
        while True:
            now = time.monotonic()
            for name, pid in pids().items():
                self.samples.setdefault(name, []).append((now, _resident_bytes(pid)))
            await asyncio.sleep(_EVERY_SECONDS)

    def settled(self, name: str) -> list[tuple[float, float]]:
        """Return the samples (hours, MB) of a process without its first minutes, or its first third."""
        samples = self.samples[name]
        began, ended = samples[0][0], samples[-1][0]
        first = began + min(_SETTLING_SECONDS, (ended - began) / 3)
        return [((at - began) / _HOUR, held / _MEGABYTE) for at, held in samples if at >= first]

    def slope(self, name: str) -> float:
        hours, held = zip(*self.settled(name), strict=True)
        return statistics.linear_regression(hours, held).slope if len(hours) > 1 else 0.0

    def grown(self, name: str) -> float:
        """Return the growth of a process during the samples, as a share of its memory."""
        settled = self.settled(name)
        return self.slope(name) * (settled[-1][0] - settled[0][0]) / settled[0][1]


def family(name: str, root: int) -> dict[str, int]:
    """Return the ids of a process and its descendants, by labels derived from `name`."""
    return {f"{name}, process {number}": process.pid for number, process in enumerate(tree(root))}


def _resident_bytes(pid: int) -> int:
    """Return the memory of one process; 0 if it has exited."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


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
