"""A worker slot: restarts its worker after a crash, and replaces it on request."""

import asyncio
import logging
from dataclasses import dataclass

from cluster.connection import ConnectionSettings
from service.settings import ServiceSettings
from service.workers.sockets import ListenError, ListenSockets, bind_worker_sockets
from service.workers.worker import WorkerConfig, WorkerExited, WorkerProcess

# A worker that dies sooner than this is restarted with backoff.
_EARLY_DEATH_SECONDS = 10.0
_MIN_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 30.0
# Connections wait in the socket of the dead worker for the next one, but not for longer than this.
_MAX_CONNECTION_WAIT_SECONDS = 1.0
# Time to exit after the deadline of the last request.
_EXIT_GRACE_SECONDS = 5.0

_log = logging.getLogger("service")


class ReplacementFailed(Exception):
    """The replacement of a worker did not become ready, so the old one stays; the text says why."""


@dataclass(frozen=True)
class WorkerPoolConfig:
    """The settings of all workers."""

    settings: ServiceSettings
    connection: ConnectionSettings

    @property
    def exit_timeout_seconds(self) -> float:
        """The time within which a healthy worker exits after its stop signal."""
        return self.settings.drain_seconds + self.settings.deadline_seconds + _EXIT_GRACE_SECONDS


class WorkerSlot:
    """One worker and its sockets."""

    def __init__(self, number: int, config: WorkerPoolConfig, listeners: ListenSockets) -> None:
        """Start the first worker; slots are numbered from 0."""
        self.config = config
        self.alive: set[WorkerProcess] = set()  # the worker, its starting replacement, replaced ones that still drain
        self._number = number
        self._listeners: ListenSockets | None = listeners
        self._early_deaths = 0
        self._worker = self._start(config)

    async def supervise(self) -> None:
        """Restart the worker whenever it dies: immediately, or with exponential backoff if it died early."""
        while True:
            worker = self._worker
            cause = await self._end_of(worker)
            if worker is not self._worker:
                continue
            delay = self._backoff(worker)
            _log.warning("%s exited: %s. Restarting in %g s.", worker, cause, delay)
            if delay > _MAX_CONNECTION_WAIT_SECONDS:
                self._close()
            await asyncio.sleep(delay)
            while worker is self._worker:
                try:
                    self._worker = self._start(self.config)
                except ListenError as error:
                    _log.error("%s", error)
                    await asyncio.sleep(_MAX_BACKOFF_SECONDS)

    async def replace(self, config: WorkerPoolConfig, ready_seconds: float) -> None:
        """Start a new worker, and retire the old one once the new one is ready for requests.

        Raises ReplacementFailed if it does not become ready in time; the old worker then stays.
        """
        worker = await self._start_ready(config, ready_seconds)
        old, self._worker, self.config = self._worker, worker, config
        old.retire()
        _log.info("Replaced %s with %s.", old, worker)
        await self.wait_exit(old)

    async def wait_exit(self, worker: WorkerProcess) -> bool:
        """Wait until a stopped worker exits; kill it and return False if it takes too long."""
        try:
            async with asyncio.timeout(self.config.exit_timeout_seconds):
                await self._end_of(worker)
        except TimeoutError:
            _log.warning("%s did not exit in time. Killing it.", worker)
            worker.kill()
            await self._end_of(worker)
            return False
        return True

    async def _end_of(self, worker: WorkerProcess) -> str:
        cause = await worker.wait_exit()
        self.alive.discard(worker)
        return cause

    async def _start_ready(self, config: WorkerPoolConfig, seconds: float) -> WorkerProcess:
        try:
            worker = self._start(config, ready_first=True)
        except ListenError as error:
            raise ReplacementFailed(str(error)) from error
        try:
            async with asyncio.timeout(seconds):
                await worker.wait_listening()
        except WorkerExited as error:
            raise ReplacementFailed(f"{worker} exited before it was ready: {error}.") from error
        except TimeoutError as error:
            worker.kill()
            await self._end_of(worker)
            raise ReplacementFailed(f"{worker} was not ready within {seconds:g} s.") from error
        return worker

    def _start(self, config: WorkerPoolConfig, *, ready_first: bool = False) -> WorkerProcess:
        if self._listeners is None:
            self._listeners = bind_worker_sockets(self._number, config.settings)
        worker = WorkerProcess(
            self._number, WorkerConfig(config.settings, config.connection, self._listeners, ready_first)
        )
        self.alive.add(worker)
        return worker

    def _backoff(self, died: WorkerProcess) -> float:
        lifetime = asyncio.get_running_loop().time() - died.started_at
        self._early_deaths = 0 if lifetime >= _EARLY_DEATH_SECONDS else self._early_deaths + 1
        if not self._early_deaths:
            return 0.0
        return min(_MIN_BACKOFF_SECONDS * 2.0 ** (self._early_deaths - 1), _MAX_BACKOFF_SECONDS)

    def close_listeners(self) -> None:
        """Close this process's handles of the sockets; workers that run keep theirs."""
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None

    def _close(self) -> None:
        """Make the kernel send all connections to the other workers."""
        if not self.alive:
            self.close_listeners()
