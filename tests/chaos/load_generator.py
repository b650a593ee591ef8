"""The load generator, a separate process: `python -m tests.chaos.load_generator FILE`, a `Plan` on its standard input.

It sends requests when they are due, whether or not earlier ones have ended, like many consumers that are independent of
each other. Bodies are counted and not read. What came of each request goes to the file, a `Report`.
"""

import asyncio
import gc
import random
import resource
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import uvloop

from bench.client import Connection, Pool, get
from bench.walks import ServiceWay

PAGE, SHOW = "page", "show"
OK, REFUSED, WRONG, FAILED = "ok", "refused", "wrong", "failed"
_CONNECTIONS = 64
_WAY = "/v1/listings"


class LoadPhase(msgspec.Struct, frozen=True):
    """Rates of pages and shows per second, and clients that request pages one after the other, for some seconds.

    Each client goes on until it has sent `least` requests, however slow the machine is.
    """

    seconds: float
    pages: float = 0.0
    shows: float = 0.0
    clients: int = 0
    least: int = 1


class LoadPlan(msgspec.Struct, frozen=True):
    """The load to send. The stretches follow each other without a gap."""

    server: str
    key: str
    company: str
    page_size: int
    stretches: list[LoadPhase]
    seed: int = 0


class SentRequest(msgspec.Struct, frozen=True, array_like=True):
    """One request. Times are in seconds; `due` counts from the start of the run."""

    kind: str
    stretch: int
    due: float
    late: float  # how much later than due it was sent: the generator's own fault
    took: float  # from when it was sent until its last byte came
    outcome: str
    status: int


class LoadReport(msgspec.Struct, frozen=True):
    """All requests, and the resource usage of the generator."""

    sent: list[SentRequest]
    processor_seconds: list[float]  # in each stretch


@dataclass
class LoadGenerator:
    """Sends requests when they are due, over as many connections as necessary."""

    plan: LoadPlan
    pages: list[tuple[str | None, int]] = field(default_factory=list)  # cursor, bytes of the page behind it
    sent: list[SentRequest] = field(default_factory=list)
    idle: list[Connection] = field(default_factory=list)
    asking: set[asyncio.Task[None]] = field(default_factory=set)
    number: int = 0
    began: float = 0.0

    def __post_init__(self) -> None:
        self._pool = Pool()
        self._random = random.Random(self.plan.seed)  # noqa: S311 - a schedule, no secret
        self._way = ServiceWay(self.plan.server, _WAY, self.plan.key, self.plan.page_size)

    async def learn(self) -> None:
        """Walk the feed once without load: the cursor and size of each page."""
        self.idle = list(await self._pool.take(self.plan.server, _CONNECTIONS))
        after = None
        while not self.pages or after is not None:
            answer = await self.idle[0].fetch(self._way.request(self.plan.company, after))
            self.pages.append((after, answer.length))
            after = self._way.cursor(answer)

    async def run(self) -> LoadReport:
        self.began = began = time.perf_counter()
        used = []
        for number, stretch in enumerate(self.plan.stretches):
            before = _processor_seconds()
            await asyncio.gather(self._open(number, stretch, began), *self._clients(number, stretch, began))
            used.append(_processor_seconds() - before)
            began += stretch.seconds
        await asyncio.gather(*self.asking)
        return LoadReport(self.sent, used)

    async def _open(self, number: int, stretch: LoadPhase, began: float) -> None:
        for due, kind in self._schedule(stretch):
            await _until(began + due)
            task = asyncio.create_task(self._ask(kind, number, began + due))
            self.asking.add(task)
            task.add_done_callback(self.asking.discard)
        await _until(began + stretch.seconds)

    def _schedule(self, stretch: LoadPhase) -> list[tuple[float, str]]:
        """Return the due times: arrivals are random, like those of many independent consumers."""
        due = []
        for kind, rate in ((PAGE, stretch.pages), (SHOW, stretch.shows)):
            count = round(rate * stretch.seconds)
            due += [(self._random.uniform(0, stretch.seconds), kind) for _ in range(count)]
        return sorted(due)

    def _clients(self, number: int, stretch: LoadPhase, began: float) -> Iterator[Coroutine[None, None, None]]:
        async def client() -> None:
            sent = 0
            while sent < stretch.least or time.perf_counter() < began + stretch.seconds:
                await self._ask(PAGE, number, time.perf_counter())
                sent += 1

        return (client() for _ in range(stretch.clients))

    async def _ask(self, kind: str, stretch: int, due: float) -> None:
        request, length = self._request(kind)
        connection = self.idle.pop() if self.idle else await self._connected()
        started = time.perf_counter()
        try:
            answer = await connection.ask(request)
        except ConnectionError:
            status, outcome = 0, FAILED
        else:
            status = answer.status
            outcome = _outcome(status, answer.body, is_whole=length in {None, answer.length})
            if connection.is_open:
                self.idle.append(connection)
        took = time.perf_counter() - started
        self.sent.append(SentRequest(kind, stretch, due - self.began, started - due, took, outcome, status))

    def _request(self, kind: str) -> tuple[bytes, int | None]:
        """Return a request, and the size of its response if known."""
        if kind == SHOW:
            # A cursor is the identifier of a listing.
            after, _ = self._random.choice(self.pages[1:])
            return get(self.plan.server, f"{_WAY}/{after}", {"x-api-key": self.plan.key}), None
        after, length = self._random.choice(self.pages)
        # All requests differ, so that no two share a search.
        self.number += 1
        request = self._way.request(self.plan.company, after)
        return request.replace(b"updated_since=1&", b"updated_since=%d&" % self.number), length

    async def _connected(self) -> Connection:
        pool = Pool()
        [connection] = await pool.take(self.plan.server, 1)
        return connection


async def _until(moment: float) -> None:
    if (ahead := moment - time.perf_counter()) > 0:
        await asyncio.sleep(ahead)


def _outcome(status: int, body: bytes, *, is_whole: bool) -> str:
    if status == 200:
        return OK if is_whole else WRONG
    return REFUSED if status == 503 and b'"code":"overloaded"' in body else FAILED


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _main(plan: LoadPlan) -> LoadReport:
    generator = LoadGenerator(plan)
    await generator.learn()
    return await generator.run()


if __name__ == "__main__":
    gc.disable()
    report = uvloop.run(_main(msgspec.json.decode(sys.stdin.buffer.read(), type=LoadPlan)))
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(report))
