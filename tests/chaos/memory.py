"""The memory of processes over time, and how steeply it grows."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.accounting import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVERY_SECONDS = 5.0
_SETTLING_SECONDS = 300.0  # the first minutes fill caches and pools
_MEGABYTE = 1e6
_HOUR = 3600.0


@dataclass
class Memory:
    """Samples (seconds, bytes) of the resident memory of each process, by what it is called."""

    samples: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    async def watch(self, pids: Callable[[], Mapping[str, int]]) -> None:
        """Look at the processes of these names, as they are each time, until cancelled."""
        while True:
            now = time.monotonic()
            for name, pid in pids().items():
                self.samples.setdefault(name, []).append((now, _resident_bytes(pid)))
            await asyncio.sleep(EVERY_SECONDS)

    def settled(self, name: str) -> list[tuple[float, float]]:
        """Return the samples (hours, megabytes) of a process without its first minutes, or its first third."""
        samples = self.samples[name]
        began, ended = samples[0][0], samples[-1][0]
        first = began + min(_SETTLING_SECONDS, (ended - began) / 3)
        return [((at - began) / _HOUR, held / _MEGABYTE) for at, held in samples if at >= first]

    def slope(self, name: str) -> float:
        """Return by how many megabytes an hour a process grows, of all samples together."""
        hours, held = zip(*self.settled(name), strict=True)
        return statistics.linear_regression(hours, held).slope if len(hours) > 1 else 0.0

    def grown(self, name: str) -> float:
        """Return by which share of its memory a process has grown in the time that was looked at."""
        settled = self.settled(name)
        return self.slope(name) * (settled[-1][0] - settled[0][0]) / settled[0][1]


def family(name: str, root: int) -> dict[str, int]:
    """Return the numbers of a process and of all that it started, by names made of `name`."""
    return {f"{name}, process {number}": process.pid for number, process in enumerate(tree(root))}


def _resident_bytes(pid: int) -> int:
    """Return the memory of one process; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
