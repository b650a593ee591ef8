"""The processes that are measured: services, each with a port of its own, and commands."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import aiohttp

from bench.questions import MOST_CLIENTS
from embedded.node_options import free_ports

COMMAND = Path(sys.executable).with_name("brokerage")
_START_SECONDS = 60
_STOP_SECONDS = 15
_LOOK_SECONDS = 0.02

# The system counts the peak of a process from that of its parent, so a small process starts what is measured.
_STARTER = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
code = os.waitstatus_to_exitcode(status)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss, file=open(int(sys.argv[1]), "w"))
"""


class Version(NamedTuple):
    """A version of the product: its command, and the environment in which that imports the version's packages."""

    command: Path = COMMAND
    environment: Mapping[str, str] = MappingProxyType({})


OURS = Version()


def version(checkout: Path) -> Version:
    """Return that of a checkout, with the packages that it locks if `make install` made an environment there."""
    folder = checkout.resolve()
    own = folder / ".venv" / "bin" / "brokerage"
    path = os.pathsep.join(map(str, (folder, folder / "consumer")))
    return Version(own if own.exists() else COMMAND, {"PYTHONPATH": path})


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
    ran: Version = OURS,
) -> AbstractAsyncContextManager[Program]:
    """Run the service on a node. It starts at once and is ready later: wait for `ready`."""
    environment = {
        "ELASTICSEARCH_URL": engine_url,
        "BROKERAGE_INDEX_PREFIX": prefix,
        "BROKERAGE_CONCURRENCY": str(MOST_CLIENTS),  # no queueing, which the other arms do not have
        "BROKERAGE_KEY_CONCURRENCY": "0",
        **ran.environment,
        **(settings or {}),
    }
    return running(environment, str(ran.command), "serve", "--workers", str(workers))


@asynccontextmanager
async def running(environment: Mapping[str, str], *command: str) -> AsyncGenerator[Program, None]:
    """Run a command with `--port` and a free port."""
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
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), seconds)
            except TimeoutError:
                process.kill()
                await process.wait()


class Used(NamedTuple):
    """What a command took: seconds, seconds of the processor, and bytes of memory at most."""

    seconds: float
    processor: float
    memory: int


def measure_command(*arguments: str, environment: Mapping[str, str], ran: Version = OURS) -> Used:
    """Run `brokerage ARGUMENTS` and return what it took; raise SystemExit if it failed."""
    started, (measured, written) = time.perf_counter(), os.pipe()
    with os.fdopen(measured) as file:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-S", "-c", _STARTER, str(written), str(ran.command), *arguments],
            env={**os.environ, **ran.environment, **environment},
            stdout=subprocess.DEVNULL,
            pass_fds=[written],
        )
        os.close(written)
        code, processor, kilobytes = file.read().split() or ("-1", "0", "0")
    process.wait()
    if code != "0":
        raise SystemExit(f"brokerage {' '.join(arguments)} ended with {code}.")
    return Used(time.perf_counter() - started, float(processor), int(kilobytes) * 1024)
