"""What was counted in the last ten minutes, in steps of five seconds: the console has charts from its first look on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from aiohttp import web

    from service.services import Services
    from service.telemetry.histogram import Histogram

STEP_SECONDS = 5
STEPS = 120
# Subjects beside the routes.
ENGINE, LOOP = "elasticsearch", "event loop"
STATUS, ROWS, SECONDS = "status", "rows", "seconds"

# What is counted, of which route or other subject, and the status or the upper bound in seconds.
Name = tuple[str, str, str]
Counts = Counter[Name]


class Step(msgspec.Struct):
    """What was counted in the five seconds that have this number since 1970."""

    number: int
    counts: list[tuple[str, str, str, int]]


class History:
    """The steps of one process; `clock` tells the seconds since 1970."""

    def __init__(self, services: Services, clock: Callable[[], float] = time.time) -> None:
        """Begin now: what was counted before is not told."""
        self._services = services
        self._clock = clock
        self._before = _totals(services)
        self._steps: deque[tuple[int, Counts]] = deque(maxlen=STEPS)

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        """Count on for as long as the application runs."""
        counting = asyncio.create_task(self._run())
        yield
        counting.cancel()
        with suppress(asyncio.CancelledError):
            await counting

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self.take()

    def take(self) -> None:
        """Add to the step of this moment what was counted since the last time."""
        number = int(self._clock()) // STEP_SECONDS
        totals = _totals(self._services)
        if not self._steps or self._steps[-1][0] != number:
            self._steps.append((number, Counter()))
        self._steps[-1][1].update(totals - self._before)
        self._before = totals

    def steps(self) -> list[Step]:
        """Return all of them up to now, the oldest first."""
        self.take()
        return [Step(number, [(*name, count) for name, count in counts.items()]) for number, counts in self._steps]


def joined(steps: Iterable[Step]) -> dict[int, Counts]:
    """Return the steps of several processes by their numbers."""
    found: dict[int, Counts] = {}
    for step in steps:
        counts = found.setdefault(step.number, Counter())
        for kind, subject, label, count in step.counts:
            counts[kind, subject, label] += count
    return found


def _totals(services: Services) -> Counts:
    return Counter(dict(_counted(services)))


def _counted(services: Services) -> Iterator[tuple[Name, int]]:
    traffic = services.traffic
    of_status: Counts = Counter()
    for (route, status, _), count in traffic.requests.items():
        of_status[STATUS, route, str(status)] += count
    yield from of_status.items()
    for route, rows in traffic.rows.items():
        yield (ROWS, route, ""), rows
    for (route, status_class), spent in traffic.seconds.items():
        if status_class == "2xx":
            yield from _spent(route, spent)
    engine: Counts = Counter()
    for outcome, spent in services.engine.attempts.seconds.items():
        engine.update({(STATUS, ENGINE, outcome): sum(spent.counts.values())})
        engine.update(dict(_spent(ENGINE, spent)))
    yield from engine.items()
    yield from _spent(LOOP, services.loop_lag.seconds)


def _spent(subject: str, spent: Histogram) -> Iterator[tuple[Name, int]]:
    for bound, count in spent.counts.items():
        yield (SECONDS, subject, str(bound)), count
