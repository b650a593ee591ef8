"""The processes that are measured, each with a port of its own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.arms import MOST_CLIENTS
from embedded.node_options import free_ports

COMMAND = Path(sys.executable).with_name("brokerage")
_START_SECONDS = 60
_STOP_SECONDS = 15
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Program:
    """A process that answers at `url` once it is ready."""

    url: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    async def ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until the program answers, whatever it answers; `/readyz` is what the service has for it.

        Raises RuntimeError where it ends before that, TimeoutError where it takes too long.
        """
        async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
            while not await self._answers(session):
                if self.process.returncode is not None:
                    raise RuntimeError(f"it ended with {self.process.returncode} before it answered")
                await asyncio.sleep(_LOOK_SECONDS)

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/readyz") as response:
                return response.status < 500
        except aiohttp.ClientConnectionError:
            return False


def service(
    engine_url: str,
    prefix: str,
    workers: int = 1,
    settings: Mapping[str, str] | None = None,
    command: Path = COMMAND,
) -> AbstractAsyncContextManager[Program]:
    """Run the service on a node. It starts at once and is ready later: wait for `ready`."""
    environment = {
        "ELASTICSEARCH_URL": engine_url,
        "BROKERAGE_INDEX_PREFIX": prefix,
        "BROKERAGE_CONCURRENCY": str(MOST_CLIENTS),  # no queueing, which the other arms do not have
        "BROKERAGE_KEY_CONCURRENCY": "0",
        **(settings or {}),
    }
    return _running(environment, str(command), "serve", "--workers", str(workers))


@asynccontextmanager
async def _running(environment: Mapping[str, str], *command: str) -> AsyncGenerator[Program, None]:
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *command, "--port", str(port), env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    async with ending(process):
        yield Program(f"http://127.0.0.1:{port}", process)


@asynccontextmanager
async def ending(process: asyncio.subprocess.Process, seconds: float = _STOP_SECONDS) -> AsyncGenerator[None, None]:
    """Stop a process at the end of the context: gracefully within so many seconds, then by force."""
    try:
        yield
    finally:
        await _end(process, seconds)


async def _end(process: asyncio.subprocess.Process, seconds: float) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
