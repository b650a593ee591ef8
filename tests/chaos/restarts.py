"""Restarts during reads: replaced workers, a process that takes over, killed workers."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from tests.chaos.keepalive_consumers import pages_of, port_of, reading
from tests.chaos.loaded_service import LoadedCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.processes import workers_of

_ROLL_SECONDS = 300
_LOOK_SECONDS = 0.02
_BETWEEN_KILLS_SECONDS = 1.0
_ROLLED = "All workers were replaced."


async def rolled(
    stage: LoadedCluster, *, rolls: int = 5, consumers: int = 20, pause: Callable[[], float] = lambda: 0.01
) -> ScenarioResult:
    """Send SIGHUP to a service with two workers repeatedly."""
    async with stage.service("--workers", "2") as serving:
        pages = await pages_of(stage, serving)
        before = workers_of(serving.process.pid)
        async with reading(pages, port_of(serving), consumers, pause) as tally:
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
        port = port_of(current)
        pages = await pages_of(stage, current)
        async with reading(pages, port, consumers, pause) as tally:
            for _ in range(times):
                following = await stack.enter_async_context(stage.service(port=port, share_port=True))
                await _until(lambda: listening_on(port) == 2)
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
        pages = await pages_of(stage, serving)
        async with reading(pages, port_of(serving), consumers) as tally:
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


def listening_on(port: int) -> int:
    """Count the sockets that listen on a local port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[1].partition(":")[2], 16) == port and row[3] == "0A" for row in rows)
