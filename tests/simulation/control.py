"""An indexer that pauses between two of its requests, a service whose answers are held, and the clocks of both."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from elastic_transport import AsyncTransport

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.search.cached_value import CacheAges
from service.services import SERVICES, Services
from service.settings import ServiceSettings
from tests.internals import keep_for, running_searches
from tests.simulation.copies import Get, Gone


@dataclass
class ControlledClock:
    """The indexer's clock, in milliseconds since 1970: replaces the module `time`."""

    milliseconds: int

    def time_ns(self) -> int:
        return self.milliseconds * 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class StepGate:
    """Lets a limited number of the indexer's steps pass.

    A step is a request that writes, shows or publishes data of one alias: bulk, refresh, alias, mark. Taking the
    right to write is one for a rebuild.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        """Let everything pass."""
        self._send = transport.perform_request
        transport.perform_request = self._passed  # type: ignore[method-assign]
        self._room: float = math.inf
        self._alias = ""
        self._refreshes = False
        self._opened = asyncio.Event()
        self.has_write_lock = False
        self.is_held = asyncio.Event()

    def begin(self, alias: str, room: float, *, refreshes: bool) -> None:
        """Limit the steps of the next work on an alias; without `refreshes`, refreshes do not count."""
        self._alias, self._refreshes, self.has_write_lock = alias, refreshes, False
        self.open(room)

    def open(self, room: float) -> None:
        self._room = room
        self.is_held.clear()
        self._opened.set()

    async def _passed(self, method: str, target: str, **given: Any) -> Any:
        if method != "GET" and self._is_step(target.partition("?")[0], given.get("body")):
            while self._room <= 0:
                self._opened.clear()
                self.is_held.set()
                await self._opened.wait()
            self._room -= 1
        if method == "PUT" and "/lock-write-" in target:
            self.has_write_lock = True
        return await self._send(method, target, **given)

    def _is_step(self, path: str, body: Any) -> bool:
        if path == "/_aliases":
            return any(part["alias"] == self._alias for action in body["actions"] for part in action.values())
        if path.endswith("/_refresh"):
            return self._refreshes
        if "/_doc/lock-write-" in path:  # up to here a rebuild lets others write
            return not (self._refreshes or self.has_write_lock)
        return path.endswith(("/_bulk", f"/_alias/{self._alias}")) or "/_doc/mark-" in path


class PausableWork:
    """One work of the indexer at a time, which stops at the gate when it has taken its steps."""

    def __init__(self, gate: StepGate) -> None:
        self._gate = gate
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None

    async def begin(
        self, work: Coroutine[Any, Any, Any], alias: str, room: float, *, refreshes: bool
    ) -> asyncio.Task[Any] | None:
        """Begin work on an alias; return it if it is done, None if it paused."""
        self._gate.begin(alias, room, refreshes=refreshes)
        self._task = asyncio.create_task(work)
        return await self._ended()

    async def go_on(self, room: float = math.inf) -> asyncio.Task[Any] | None:
        """Resume paused work for some steps; return it if it is done."""
        if self._task is None:
            return None
        self._gate.open(room)
        return await self._ended()

    async def _ended(self) -> asyncio.Task[Any] | None:
        work = self._task
        assert work is not None
        holding = asyncio.create_task(self._gate.is_held.wait())
        await asyncio.wait({work, holding}, return_when=asyncio.FIRST_COMPLETED)
        holding.cancel()
        if not work.done():
            return None
        self._task = None
        return work


class ControlledReplica:
    """One process of the service. The response to one search can be delayed."""

    def __init__(self, http: TestClient[Any, Any], services: Services) -> None:
        """Keys and companies do not change here and are read once; marks are read for each first page."""
        self.http = http
        self.engine = services.engine
        self._of_keys = services.connection.keys_index
        keep_for(CacheAges(math.inf, math.inf), services.directory, services.keys)
        keep_for(CacheAges(0.0, 0.0), *services.marks.values())
        self.call, self.engine.request = self.engine.request, self._held  # type: ignore[method-assign]
        self.hold: asyncio.Event | None = None  # set it to hold the next answer to a search until it is set
        self.is_holding = asyncio.Event()

    async def _held(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        answer = await self.call(method, target, body)
        # The keys are searched in the background: their answer is not the one that is waited for.
        if self.hold is not None and "/_search" in target and self._of_keys not in target:
            hold, self.hold = self.hold, None
            self.is_holding.set()
            await hold.wait()
        return answer

    async def ask(self, key: str, path: str, parameters: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers of what a key gets at a path below /v1."""
        async with self.http.get(f"/v1/{path}", params=parameters, headers={"x-api-key": key}) as answer:
            return answer.status, await answer.read(), answer.headers

    def get(self, key: str) -> Get:
        """Return how a key gets what is there; all but a void position must be."""

        async def get(path: str, parameters: dict[str, str]) -> bytes:
            status, body, _ = await self.ask(key, path, parameters)
            if status == 410:
                raise Gone("410")
            assert status == 200, body
            return body

        return get

    def joined(self) -> bool:
        """Whether several requests wait for the same search."""
        return any(flight.waiters > 1 for flight in self._flying())

    def forget(self) -> None:
        """Cancel all running searches."""
        for flight in self._flying():
            flight.task.cancel()
        running_searches(self.engine).clear()

    def _flying(self) -> list[Any]:
        return list(running_searches(self.engine).values())


@asynccontextmanager
async def controlled_replica(
    settings: ServiceSettings, connection: ConnectionSettings
) -> AsyncIterator[ControlledReplica]:
    app = create_app(settings, connection)
    async with TestClient(TestServer(app)) as http:
        yield ControlledReplica(http, app[SERVICES])
