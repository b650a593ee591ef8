"""Restarts while consumers read that hold their connections, honour `Connection: close` and never retry."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.client import Answer, Connection, get
from bench.questions import COMPANY
from bench.walks import ServiceWay
from tests.contract.world import read_source, source_identifiers
from tests.processes import workers_of
from tests.simulation.results import ScenarioResult
from tests.simulation.services import LoadedCluster, RunningServe

_PAGE_SIZE = 25
_FEED = f"/v1/listings?platform_company_id={COMPANY}&market_status=all&updated_since=1&page_size={_PAGE_SIZE}"
# How long a missing response may delay a scenario.
_PATIENCE_SECONDS = 30
_CALM_SECONDS = 1.0
_ROLL_SECONDS = 300
_LOOK_SECONDS = 0.02
_BETWEEN_KILLS_SECONDS = 1.0
_ROLLED = "All workers were replaced."


@dataclass
class ConsumerTotals:
    requests: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    connections: int = 0
    asked_to_close: int = 0
    outage_seconds: float = 0.0
    _good: float = field(default_factory=time.monotonic)

    def good(self) -> None:
        now = time.monotonic()
        self.outage_seconds, self._good = max(self.outage_seconds, now - self._good), now

    def outcome(self, fault: str, figures: dict[str, str], violations: list[str]) -> ScenarioResult:
        self.good()
        causes = {cause: str(self.failed.count(cause)) for cause in dict.fromkeys(self.failed)}
        connections = {"connections": str(self.connections), "closed by the service": str(self.asked_to_close)}
        return ScenarioResult(
            fault=fault,
            requests=self.requests,
            wrong=len(self.wrong),
            failed=len(self.failed),
            outage_seconds=self.outage_seconds,
            figures={**figures, **connections, **causes},
            violations=[*violations, *self.wrong],
        )


class KeepAliveConsumer:
    """Requests one page after the other and compares each byte for byte with the one from before the fault."""

    def __init__(self, pages: dict[bytes, bytes], tally: ConsumerTotals, pause_seconds: Callable[[], float]) -> None:
        self._pages, self._tally, self._pause = pages, tally, pause_seconds
        self._connection: Connection | None = None
        self._answered = False  # on this connection

    async def read(self, port: int) -> None:
        while True:
            request = random.choice(list(self._pages))  # noqa: S311 - which page it is protects nothing
            self._tally.requests += 1
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    self._judge(request, await self._ask(request, port))
            except (OSError, TimeoutError) as error:
                self._tally.failed.append(f"{type(error).__name__}, {'reused' if self._answered else 'new'} connection")
                self._leave()
            await asyncio.sleep(self._pause())

    async def _ask(self, request: bytes, port: int) -> Answer:
        # A connection that the service closed during a pause is not a failure: nothing was sent on it.
        if self._connection is None or not self._connection.is_open:
            self._answered = False
            self._connection = await _connected(port)
            self._tally.connections += 1
        return await self._connection.ask(request, keep=True)

    def _judge(self, request: bytes, answer: Answer) -> None:
        if answer.status != 200:
            self._tally.failed.append(f"status {answer.status}")
        elif answer.body != self._pages[request]:
            self._tally.wrong.append(f"{len(answer.body)} bytes instead of {len(self._pages[request])}: {request!r}")
        else:
            self._tally.good()
        self._answered = True
        if (answer.header("connection") or "").lower() == "close":
            self._tally.asked_to_close += 1
            self._leave()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


async def _connected(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def _pages_of(stage: LoadedCluster, serving: RunningServe) -> dict[bytes, bytes]:
    """Walk all listings without faults; return each request and body. Raise RuntimeError if records are missing."""
    way = ServiceWay(serving.url, "", stage.key, _PAGE_SIZE)
    pages: dict[bytes, bytes] = {}
    connection = await _connected(serving.port)
    after: str | None = ""
    while after is not None:
        target = f"{_FEED}&last_platform_listing_id={after}" if after else _FEED
        request = get(serving.url, target, {"x-api-key": stage.key})
        answer = await connection.fetch(request, keep=True)
        pages[request], after = answer.body, way.cursor(answer)
    connection.close()
    parsed = [orjson.loads(body) for body in pages.values()]
    met = [listing["PlatformListingId"] for page in parsed for listing in page["Listings"]]
    held = read_source(stage.source / "listings.ndjson")
    expected = source_identifiers(envelope for envelope in held if envelope["platform_company_id"] == COMPANY)
    if met != expected or [page["FinalPage"] for page in parsed] != [False] * (len(parsed) - 1) + [True]:
        raise RuntimeError(f"A walk in peace met {len(met)} of {len(expected)} listings.")
    return pages


@asynccontextmanager
async def _reading(
    pages: dict[bytes, bytes], port: int, consumers: int, pause: Callable[[], float] = lambda: 0.01
) -> AsyncIterator[ConsumerTotals]:
    """Run consumers during the block and a little longer."""
    tally = ConsumerTotals()
    tasks = [asyncio.create_task(KeepAliveConsumer(pages, tally, pause).read(port)) for _ in range(consumers)]
    try:
        await asyncio.sleep(_CALM_SECONDS)
        yield tally
        await asyncio.sleep(_CALM_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                tally.wrong.append(f"a consumer ended by {ended!r}")


async def rolled(
    stage: LoadedCluster, *, rolls: int = 5, consumers: int = 20, pause: Callable[[], float] = lambda: 0.01
) -> ScenarioResult:
    """Send SIGHUP to a service with two workers repeatedly."""
    async with stage.service("--workers", "2") as serving:
        pages = await _pages_of(stage, serving)
        before = workers_of(serving.process.pid)
        async with _reading(pages, serving.port, consumers, pause) as tally:
            for count in range(1, rolls + 1):
                serving.process.send_signal(signal.SIGHUP)
                await _until(lambda count=count: serving.log.read_text().count(_ROLLED) == count)  # type: ignore[misc]
        stayed = before & workers_of(serving.process.pid)
    return tally.outcome(
        f"{rolls} rolling restarts of two workers under {consumers} keep-alive clients without retries",
        {},
        ["Workers stayed that should have been replaced."] if stayed else [],
    )


async def taken_over(
    stage: LoadedCluster, *, times: int = 5, consumers: int = 20, pause: Callable[[], float] = lambda: 0.01
) -> ScenarioResult:
    """Start a second process on the same port, then stop the first; repeat."""
    async with AsyncExitStack() as stack:
        current = await stack.enter_async_context(stage.service(share_port=True))
        port = current.port
        pages = await _pages_of(stage, current)
        async with _reading(pages, port, consumers, pause) as tally:
            for _ in range(times):
                following = await stack.enter_async_context(stage.service(port=port, share_port=True))
                await _until(lambda: _listening_on(port) == 2)
                current.process.send_signal(signal.SIGTERM)
                await current.process.wait()
                current = following
    return tally.outcome(
        f"{times} times: start a second process on the same port, then SIGTERM to the first, "
        f"under {consumers} keep-alive clients",
        {},
        [],
    )


async def killed_workers(stage: LoadedCluster, *, kills: int = 10, consumers: int = 20) -> ScenarioResult:
    """Send SIGKILL to one of two workers each second; only its open requests may fail."""
    async with stage.service("--workers", "2") as serving:
        pages = await _pages_of(stage, serving)
        async with _reading(pages, serving.port, consumers) as tally:
            for _ in range(kills):
                await _until(lambda: len(workers_of(serving.process.pid)) == 2)
                os.kill(min(workers_of(serving.process.pid)), signal.SIGKILL)
                await asyncio.sleep(_BETWEEN_KILLS_SECONDS)
            await _until(lambda: len(workers_of(serving.process.pid)) == 2)
        ended = serving.log.read_text().count("exited: SIGKILL.")
    return tally.outcome(
        f"SIGKILL of one of two workers each second, {kills} times, under {consumers} keep-alive clients",
        {},
        [] if ended == kills else [f"{ended} of {kills} deaths were logged."],
    )


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(_ROLL_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(_LOOK_SECONDS)


def _listening_on(port: int) -> int:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[1].partition(":")[2], 16) == port and row[3] == "0A" for row in rows)
