"""The memory of processes over time, and its growth."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.accounting import tree

EVERY_SECONDS = 5.0
_SETTLING_SECONDS = 300.0  # the first minutes fill caches and pools
_MEGABYTE = 1e6
_HOUR = 3600.0


@dataclass
class MemorySamples:
    """Samples (seconds, bytes) of the resident memory of each process, by label."""

    samples: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    async def watch(self, pids: Callable[[], Mapping[str, int]]) -> None:
        """Sample the processes with these labels until cancelled."""
        while True:
            now = time.monotonic()
            for name, pid in pids().items():
                self.samples.setdefault(name, []).append((now, _resident_bytes(pid)))
            await asyncio.sleep(EVERY_SECONDS)

    def settled(self, name: str) -> list[tuple[float, float]]:
        """Return the samples (hours, MB) of a process without its first minutes, or its first third."""
        samples = self.samples[name]
        began, ended = samples[0][0], samples[-1][0]
        first = began + min(_SETTLING_SECONDS, (ended - began) / 3)
        return [((at - began) / _HOUR, held / _MEGABYTE) for at, held in samples if at >= first]

    def slope(self, name: str) -> float:
        """Return the growth of a process in MB per hour, over all samples."""
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
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
