"""Kills a running command at chosen times and restarts it until it ends by itself."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.indexer.command.index_process import Running, running
from tests.indexer.conftest import Bench
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import HANG_UP, Reply, Request

SIGKILLED = -9
_LONGEST_DELAY_SECONDS = 0.02


class KillPoint(NamedTuple):
    """When to kill: at the n-th request of a kind behind the beginning of a stage, or so many seconds after it.

    Without a stage, the beginning is that of the process. With `behind`, requests count from the first one on that
    puts something whose path has that text. `only_path` counts requests of that path alone. `is_effective` says whether
    the request still has its effect. With `victims`, that many loaders are killed instead, each at the n-th request
    after the one before, and the command continues.
    """

    stage: str
    requests: int = 0
    only_bulks: bool = False
    is_effective: bool = True
    seconds: float = 0.0
    behind: str = ""
    only_path: str = ""
    victims: int = 0


class KillingProxy(RequestProxy):
    """Forwards everything, bulk requests with some delay, and calls `kill` at a chosen request.

    Requests in flight then arrive later, as they do in production.
    """

    def __init__(self, target: str, chance: random.Random) -> None:
        super().__init__(target)
        self._chance = chance
        self._moment: KillPoint | None = None
        self._left = 0
        self._is_counting = False
        self._kill: Callable[[], None]

    def arm(self, moment: KillPoint | None, kill: Callable[[], None]) -> None:
        """Kill at a time counted in requests from now on; None stops killing."""
        self._moment, self._left, self._kill = moment, moment.requests if moment else 0, kill
        self._is_counting = False

    async def reply(self, request: Request) -> Reply:
        """Forward a request; kill before or after it if it is the chosen one."""
        is_bulk, moment = request.path.endswith("/_bulk"), self._moment
        self._is_counting = self._is_counting or (moment is not None and _is_behind(moment, request))
        if moment is None or not self._is_counting or not _counts(moment, request, is_bulk=is_bulk):
            return await self._delayed(request, is_bulk=is_bulk)
        self._left -= 1
        if self._left:
            return await self._delayed(request, is_bulk=is_bulk)
        self._moment = None
        if not moment.is_effective:
            self._kill()
            return HANG_UP
        answered = await self._delayed(request, is_bulk=is_bulk)
        self._kill()
        return answered

    async def _delayed(self, request: Request, *, is_bulk: bool) -> Reply:
        if is_bulk:
            await asyncio.sleep(self._chance.uniform(0, _LONGEST_DELAY_SECONDS))
        return await super().reply(request)


def _counts(moment: KillPoint, request: Request, *, is_bulk: bool) -> bool:
    return (is_bulk or not moment.only_bulks) and request.path.startswith(moment.only_path)


def _is_behind(moment: KillPoint, request: Request) -> bool:
    return not moment.behind or (request.method == "PUT" and moment.behind in request.path)


@dataclass
class ProcessKiller:
    """Runs commands of a bench through a proxy. `resumed` collects the lines at which runs resumed."""

    bench: Bench
    proxy: KillingProxy
    address: str
    kills: int = 0
    resumed: list[int] = field(default_factory=list)

    async def run(
        self, moments: list[KillPoint], *arguments: str, between: Callable[[], Awaitable[None]], **changes: str
    ) -> Running:
        """Run a command until it ends by itself, killing it at each of the times that it reaches.

        `between` is awaited before each start. Returns the run that ended, its output read.
        """
        for moment in [*moments, None]:
            await between()
            async with running(self.bench, *arguments, ELASTICSEARCH_URL=self.address, **changes) as run:
                if moment is not None:
                    await self._kill(run, moment)
                code, complaint = await run.end()
            self.proxy.arm(None, lambda: None)
            self.resumed += [event["resumed_at"] for event in run.events if event.get("resumed_at")]
            if code != SIGKILLED:
                assert code in (0, 1), complaint
                break
            self.kills += 1
        return run

    async def _kill(self, run: Running, moment: KillPoint) -> None:
        """Wait until the run is killed at the given time, or ends before."""

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                run.process.kill()

        if not moment.stage or await run.until(moment.stage):
            if moment.victims:
                self._kill_loaders(run, moment)
            elif moment.requests:
                self.proxy.arm(moment, kill)
            else:
                await asyncio.sleep(moment.seconds)
                kill()

    def _kill_loaders(self, run: Running, moment: KillPoint) -> None:
        """Kill loaders at a time counted in requests, one after the other."""
        left = moment.victims

        def kill() -> None:
            nonlocal left
            left -= 1
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(loaders(run.process.pid)[left % 2], signal.SIGKILL)
            self.proxy.arm(moment if left else None, kill)

        self.proxy.arm(moment, kill)


def loaders(pid: int) -> list[int]:
    """Return the processes that a command has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@asynccontextmanager
async def killer(bench: Bench, seed: int) -> AsyncIterator[ProcessKiller]:
    """Serve a proxy for as long as something is run and killed."""
    proxy = KillingProxy(bench.connection.url[0], random.Random(seed))  # noqa: S311 - repeatable
    async with proxy.running() as address:
        yield ProcessKiller(bench, proxy, address)
