"""One worker process: what it is ordered to do, and the supervisor's hold on it."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from service.run import run
from service.stopping import REPLACED

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from cluster.connection import ConnectionSettings
    from service.listening import Listeners
    from service.settings import ServiceSettings

# A fresh interpreter for each worker: nothing of the parent's state or signal handlers leaks in, and the code is read
# from the disk again.
_CONTEXT = multiprocessing.get_context("spawn")

_log = logging.getLogger("service")


class WorkerEnded(Exception):
    """A worker ended; the text says by what."""


@dataclass(frozen=True)
class Order:
    """What a worker is to do. With `ready_first` it listens only once it would be ready for requests."""

    settings: ServiceSettings
    connection: ConnectionSettings
    listeners: Listeners
    ready_first: bool = False


def _work(order: Order, listening: Connection) -> None:
    def tell() -> None:
        listening.send_bytes(b"listening")
        listening.close()

    try:
        run(order.settings, order.connection, tell, order.listeners, ready_first=order.ready_first)
    except Exception:
        # Left to `multiprocessing` it would be printed past the log, which is masked.
        _log.critical("The worker ends by an error that nothing expected.", exc_info=True)
        sys.exit(1)


class Worker:
    """A worker that was started; made within the supervisor's loop."""

    def __init__(self, slot: int, order: Order) -> None:
        """Start it for a slot, counted from 0."""
        self.slot = slot
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._told: asyncio.Future[bytes] = loop.create_future()
        self._listening, theirs = _CONTEXT.Pipe(duplex=False)
        self._process = _started(order, theirs)
        self._pid = self._process.pid or 0
        self.since = loop.time()
        loop.add_reader(self._process.sentinel, self._end)
        loop.add_reader(self._listening.fileno(), self._tell)

    def __str__(self) -> str:
        """Name it as log lines do."""
        return f"worker {self.slot} (process {self._pid})"

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.done()

    async def listening(self) -> None:
        """Wait until it listens; raise WorkerEnded when it ends before that."""
        await asyncio.wait((self._told, self._ended), return_when=asyncio.FIRST_COMPLETED)
        if not self.is_alive:
            raise WorkerEnded(await self.ended())

    async def ended(self) -> str:
        """Wait for its end, and say by what it ended."""
        code = await asyncio.shield(self._ended)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def replaced(self) -> None:
        """Let it go, since another listens in its place."""
        self._send(REPLACED)

    def stop(self) -> None:
        """Let it finish and end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.is_alive:
            # It may have ended without the loop having looked.
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._ended.set_result(self._process.exitcode or 0)
        self._process.close()

    def _tell(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening.fileno())
        # The pipe also becomes readable when the worker ends before it has told anything.
        with suppress(EOFError):
            self._told.set_result(self._listening.recv_bytes())
        self._listening.close()


def _started(order: Order, listening: Connection) -> BaseProcess:
    process = _CONTEXT.Process(target=_work, args=(order, listening), daemon=True)
    # Its own first start, within the one of a process, would let through again what is held back here.
    resource_tracker.ensure_running()
    # A terminal sends these to the whole group. A worker never sees them: the supervisor says what they mean for it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        listening.close()
    return process
