"""The loader processes of a run: each loads one range and has another waiting; one that ends is replaced."""

import asyncio
from typing import Self

from indexer.build.parallel.loader_process import LoaderExited, LoaderProcess
from indexer.build.parallel.messages import LoaderSettings, LoadOrder, RangeOutcome
from indexer.context import IndexerContext
from indexer.errors import IndexerError
from indexer.source.line_ranges import LineRange

# So that none waits for its next range.
_RANGES_PER_PROCESS = 2
# A range during which so many processes ended is taken for the cause.
_MAX_EXITS = 5


class LoaderPool:
    """As many loader processes as given, as a context. `exits` says of those that ended by themselves with what."""

    def __init__(self, context: IndexerContext, processes: int) -> None:
        """Start none yet."""
        settings = LoaderSettings(context.connection, context.settings)
        self._places = [_Place(settings) for _ in range(processes)]
        self._free = asyncio.Queue[_Place]()
        self.exits: list[str] = []

    async def __aenter__(self) -> Self:
        """Offer the places in turn."""
        for place in self._places * _RANGES_PER_PROCESS:
            self._free.put_nowait(place)
        return self

    async def __aexit__(self, *_details: object) -> None:
        """End all processes."""
        await asyncio.gather(*(place.end() for place in self._places))

    @property
    def processes(self) -> int:
        """How many processes there are at most."""
        return len(self._places)

    async def load(self, order: LoadOrder, lines: LineRange) -> RangeOutcome:
        """Load a range, again if its process ends; raise what the load raises, or IndexerError after many exits."""
        for _ in range(_MAX_EXITS):
            place = await self._free.get()
            try:
                return await place.load(order, lines)
            except LoaderExited as error:
                self.exits.append(str(error))
            finally:
                self._free.put_nowait(place)
        raise IndexerError(
            f"{_MAX_EXITS} processes ended while they loaded {order.resource.alias} up to line {lines.last_line}, the "
            f"last one with {self.exits[-1]}: see what they printed, and whether this host has enough memory."
        )


class _Place:
    """One process at a time, started when it is needed."""

    def __init__(self, settings: LoaderSettings) -> None:
        self._settings = settings
        self._process: LoaderProcess | None = None
        self._starting = asyncio.Lock()

    async def load(self, order: LoadOrder, lines: LineRange) -> RangeOutcome:
        process = await self._ordered(order)
        return await process.load(lines)

    async def _ordered(self, order: LoadOrder) -> LoaderProcess:
        async with self._starting:
            if self._process is None or not self._process.is_running:
                self._process = await LoaderProcess.started(self._settings)
            if self._process.order is not order:
                await self._process.begin(order)
            return self._process

    async def end(self) -> None:
        if self._process is not None:
            await self._process.kill()
