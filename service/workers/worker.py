"""One worker process: its entry point, and the supervisor's handle on it."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from cluster.connection import ConnectionSettings
from service.settings import ServiceSettings
from service.workers.server import run_server
from service.workers.shutdown import REPLACED_SIGNAL
from service.workers.sockets import ListenSockets

# A fresh interpreter for each worker: it inherits no state or signal handlers, and imports the code from disk again.
_CONTEXT = multiprocessing.get_context("spawn")

_log = logging.getLogger("service")


class WorkerExited(Exception):
    """A worker exited; the text gives the exit code or signal."""


@dataclass(frozen=True)
class WorkerConfig:
    """The settings of one worker. With `ready_first` it listens only once it is ready for requests."""

    settings: ServiceSettings
    connection: ConnectionSettings
    listeners: ListenSockets
    ready_first: bool = False


def _work(config: WorkerConfig, pipe: Connection) -> None:
    def notify() -> None:
        pipe.send_bytes(b"listening")
        pipe.close()

    try:
        run_server(config.settings, config.connection, notify, config.listeners, ready_first=config.ready_first)
    except Exception:
        # `multiprocessing` would print it to standard error without masking.
        _log.critical("The worker ends because of an unexpected error.", exc_info=True)
        sys.exit(1)


class WorkerProcess:
    """The supervisor's handle on a worker; create it inside the event loop."""

    def __init__(self, slot: int, config: WorkerConfig) -> None:
        """Start the process; slots are numbered from 0."""
        self.slot = slot
        loop = asyncio.get_running_loop()
        self._exit_code: asyncio.Future[int] = loop.create_future()
        self._listening: asyncio.Future[bytes] = loop.create_future()
        self._pipe, worker_end = _CONTEXT.Pipe(duplex=False)
        self._process = _start(config, worker_end)
        self._pid = self._process.pid or 0
        self.started_at = loop.time()
        loop.add_reader(self._process.sentinel, self._on_exit)
        loop.add_reader(self._pipe.fileno(), self._on_listening)

    def __str__(self) -> str:
        """Return its name for log messages."""
        return f"worker {self.slot} (process {self._pid})"

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return not self._exit_code.done()

    async def wait_listening(self) -> None:
        """Wait until it listens; raise WorkerExited if it exits first."""
        await asyncio.wait((self._listening, self._exit_code), return_when=asyncio.FIRST_COMPLETED)
        if not self.is_alive:
            raise WorkerExited(await self.wait_exit())

    async def wait_exit(self) -> str:
        """Wait until it exits; return its exit code or signal as text."""
        code = await asyncio.shield(self._exit_code)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def retire(self) -> None:
        """Stop it after another worker has taken over its sockets."""
        self._send(REPLACED_SIGNAL)

    def stop(self) -> None:
        """Stop it gracefully."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.is_alive:
            # It may have exited before the loop noticed.
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._exit_code.set_result(self._process.exitcode or 0)
        self._process.close()

    def _on_listening(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        # The pipe also becomes readable if the worker exits before it listens.
        with suppress(EOFError):
            self._listening.set_result(self._pipe.recv_bytes())
        self._pipe.close()


def _start(config: WorkerConfig, pipe: Connection) -> BaseProcess:
    process = _CONTEXT.Process(target=_work, args=(config, pipe), daemon=True)
    # If `process.start` started it, it would unblock the signals that are blocked below.
    resource_tracker.ensure_running()
    # A terminal sends these to the whole group. Workers ignore them: the supervisor decides what they mean.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pipe.close()
    return process
