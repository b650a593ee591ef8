"""Consumers with persistent connections that honour `Connection: close` and never retry."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import orjson

from bench.client import Answer, Connection, get
from bench.questions import COMPANY
from bench.walks import ServiceWay
from tests.chaos.loaded_service import LoadedCluster, RunningServe
from tests.chaos.scenario_result import ScenarioResult
from tests.contract.world import read_source, source_identifiers

_PAGE_SIZE = 25
_FEED = f"/v1/listings?platform_company_id={COMPANY}&market_status=all&updated_since=1&page_size={_PAGE_SIZE}"
# How long a missing response may delay a scenario.
_PATIENCE_SECONDS = 30
_CALM_SECONDS = 1.0


@dataclass
class ConsumerTotals:
    """Results of the consumers."""

    requests: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    connections: int = 0
    asked_to_close: int = 0
    outage_seconds: float = 0.0
    _good: float = field(default_factory=time.monotonic)

    def good(self) -> None:
        """Record a successful response, and the time since the last one."""
        now = time.monotonic()
        self.outage_seconds, self._good = max(self.outage_seconds, now - self._good), now

    def outcome(self, fault: str, figures: dict[str, str], violations: list[str]) -> ScenarioResult:
        """Return the row of the report."""
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
        """Read these pages, given as requests and responses, with a pause between them."""
        self._pages, self._tally, self._pause = pages, tally, pause_seconds
        self._connection: Connection | None = None
        self._answered = False  # on this connection

    async def read(self, port: int) -> None:
        """Read until cancelled."""
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
            self._connection = await connected(port)
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


async def connected(port: int) -> Connection:
    """Open a connection to a service on this machine."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def pages_of(stage: LoadedCluster, serving: RunningServe) -> dict[bytes, bytes]:
    """Walk all listings without faults; return each request and body. Raise RuntimeError if records are missing."""
    way = ServiceWay(serving.url, "", stage.key, _PAGE_SIZE)
    pages: dict[bytes, bytes] = {}
    connection = await connected(port_of(serving))
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


def port_of(serving: RunningServe) -> int:
    """Return the port that a service listens on."""
    return urlsplit(serving.url).port or 0


@asynccontextmanager
async def reading(
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
