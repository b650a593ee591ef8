"""The last ten minutes of the metrics of a process, for the charts of the console."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress

import msgspec
from aiohttp import web

from service.services import Services
from service.telemetry.observation import Histogram

STEP_SECONDS = 5
STEP_COUNT = 120
# Subjects other than routes.
ENGINE_SUBJECT, LOOP_SUBJECT = "elasticsearch", "event loop"
STATUS_KIND, ROWS_KIND, SECONDS_KIND = "status", "rows", "seconds"

# Kind, route or other subject, and status or upper bound in seconds.
CountName = tuple[str, str, str]
Counts = Counter[CountName]


class HistoryStep(msgspec.Struct):
    """The counts of one step; `number` is the time since 1970 in steps of five seconds."""

    number: int
    counts: list[tuple[str, str, str, int]]


class MetricHistory:
    def __init__(self, services: Services, clock: Callable[[], float] = time.time) -> None:
        """Start now, without earlier counts; `clock` returns seconds since 1970."""
        self._services = services
        self._clock = clock
        self._last_totals = _totals(services)
        self._steps: deque[tuple[int, Counts]] = deque(maxlen=STEP_COUNT)

    async def lifespan(self, _: web.Application) -> AsyncIterator[None]:
        counting = asyncio.create_task(self._run())
        yield
        counting.cancel()
        with suppress(asyncio.CancelledError):
            await counting

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self.sample()

    def sample(self) -> None:
        number = int(self._clock()) // STEP_SECONDS
        totals = _totals(self._services)
        if not self._steps or self._steps[-1][0] != number:
            self._steps.append((number, Counter()))
        self._steps[-1][1].update(totals - self._last_totals)
        self._last_totals = totals

    def steps(self) -> list[HistoryStep]:
        self.sample()
        return [
            HistoryStep(number, [(*name, count) for name, count in counts.items()]) for number, counts in self._steps
        ]


def merge_steps(steps: Iterable[HistoryStep]) -> dict[int, Counts]:
    """Add up the steps of several processes, by step number."""
    merged: dict[int, Counts] = {}
    for step in steps:
        counts = merged.setdefault(step.number, Counter())
        for kind, subject, label, count in step.counts:
            counts[kind, subject, label] += count
    return merged


def _totals(services: Services) -> Counts:
    return Counter(dict(_counted(services)))


def _counted(services: Services) -> Iterator[tuple[CountName, int]]:
    traffic = services.totals.traffic
    by_status: Counts = Counter()
    for (route, status, _), count in traffic.requests.items():
        by_status[STATUS_KIND, route, str(status)] += count
    yield from by_status.items()
    for route, rows in traffic.rows.items():
        yield (ROWS_KIND, route, ""), rows
    for (route, status_class), histogram in traffic.seconds.items():
        if status_class == "2xx":
            yield from _durations(route, histogram)
    engine: Counts = Counter()
    for outcome, histogram in services.engine.attempts.seconds.items():
        engine.update({(STATUS_KIND, ENGINE_SUBJECT, outcome): sum(histogram.counts.values())})
        engine.update(dict(_durations(ENGINE_SUBJECT, histogram)))
    yield from engine.items()
    yield from _durations(LOOP_SUBJECT, services.totals.loop_lag.seconds)


def _durations(subject: str, histogram: Histogram) -> Iterator[tuple[CountName, int]]:
    for bound, count in histogram.counts.items():
        yield (SECONDS_KIND, subject, str(bound)), count
