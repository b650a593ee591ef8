"""The memory of a worker while many walk at once, above what it holds at rest."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.accounting import forget_peaks, peak_bytes, resident_bytes
from bench.questions import COMPANY, cursor
from bench.results import Memory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bench.client import Connection, Pool
    from bench.options import Size
    from bench.programs import Program
    from bench.walks import ServiceWay

CLIENTS = 64
_WARM_UP = 20
_LOOK_SECONDS = 0.02


class Peak:
    """The largest memory of a process: as the system knows it, else the largest that was seen."""

    def __init__(self, pid: int) -> None:
        """Let the system's peak begin anew."""
        self._pid = pid
        self.is_exact = forget_peaks(pid)
        self._seen = resident_bytes(pid)

    @property
    def bytes(self) -> int:
        """The peak so far."""
        return peak_bytes(self._pid) if self.is_exact else self._seen

    async def look(self) -> None:
        """Look again and again."""
        while True:
            self._seen = max(self._seen, resident_bytes(self._pid))
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def watched(pid: int) -> AsyncGenerator[Peak, None]:
    """Watch the memory of a process for a while."""
    peak = Peak(pid)
    looking = None if peak.is_exact else asyncio.create_task(peak.look())
    try:
        yield peak
    finally:
        if looking is not None:
            looking.cancel()


async def measure_memory(program: Program, way: ServiceWay, pool: Pool, size: Size) -> Memory:
    """Let 64 clients walk at once, each from a place of its own; return what the process held at most."""
    [first] = await pool.take(program.url, 1)
    for number in range(_WARM_UP):
        warm = await first.fetch(way.request(COMPANY, cursor(number / _WARM_UP / 2).decode()))
    memory = Memory(CLIENTS, warm.length, resident_bytes(program.pid), [], "")
    connections = await pool.take(program.url, CLIENTS)
    for _ in range(size.memory_rounds):
        async with watched(program.pid) as peak:
            lengths = await asyncio.gather(
                *(_walk(each, way, number, size.memory_pages) for number, each in enumerate(connections))
            )
        memory.peaks.append(peak.bytes)
        memory.page_bytes = sum(map(sum, lengths)) / sum(map(len, lengths))
        memory.how = "the system's own peak" if peak.is_exact else "looked at every 20 ms"
    return memory


async def _walk(connection: Connection, way: ServiceWay, number: int, pages: int) -> list[int]:
    """Walk some pages from the client's own place on, from the first one at the end; return their bytes."""
    lengths: list[int] = []
    after: str | None = cursor(number / CLIENTS).decode()
    for _ in range(pages):
        answer = await connection.fetch(way.request(COMPANY, after))
        lengths.append(answer.length)
        after = way.cursor(answer)
    return lengths
