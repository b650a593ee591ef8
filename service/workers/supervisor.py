"""Worker processes: their sockets, rolling replacement and shutdown."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cluster.connection import ConnectionSettings
from service.settings import ListenError, ServiceSettings
from service.workers.worker import (
    SIGNAL_EXIT_CODE_OFFSET,
    ListenSockets,
    WorkerExited,
    WorkerProcess,
    bind_worker_sockets,
    run_server,
)

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
    settings: ServiceSettings
    connection: ConnectionSettings

    @property
    def exit_timeout_seconds(self) -> float:
        """The time within which a healthy worker exits after its stop signal."""
        return self.settings.drain_seconds + self.settings.deadline_seconds + _EXIT_GRACE_SECONDS


class WorkerSlot:
    def __init__(self, number: int, config: WorkerPoolConfig, listeners: ListenSockets) -> None:
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
        settings, connection = config.settings, config.connection
        serve = partial(run_server, settings, connection, listeners=self._listeners, ready_first=ready_first)
        worker = WorkerProcess(self._number, serve)
        self.alive.add(worker)
        return worker

    def _backoff(self, died: WorkerProcess) -> float:
        lifetime = asyncio.get_running_loop().time() - died.started_at
        self._early_deaths = 0 if lifetime >= _EARLY_DEATH_SECONDS else self._early_deaths + 1
        if not self._early_deaths:
            return 0.0
        return min(_MIN_BACKOFF_SECONDS * 2.0 ** (self._early_deaths - 1), _MAX_BACKOFF_SECONDS)

    def close_listeners(self) -> None:
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None

    def _close(self) -> None:
        """Make the kernel send all connections to the other workers."""
        if not self.alive:
            self.close_listeners()


# From the start of a worker, including imports, until it is ready.
_READY_SECONDS = 30.0
# Settings of the sockets, which stay open across replacements.
_FIXED_SETTINGS = ("host", "port", "workers", "metrics_host", "metrics_port", "share_port")


@dataclass
class Supervisor:
    """The workers of one service, one per element of `listeners`.

    SIGHUP replaces them all; `load_config` returns the settings of the new ones and raises ValueError for invalid ones.
    """

    load_config: Callable[[], WorkerPoolConfig]
    listeners: Sequence[ListenSockets]
    ready_seconds: float = _READY_SECONDS
    _slots: list[WorkerSlot] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _hangup: asyncio.Event = field(default_factory=asyncio.Event)
    _code: int = 0

    def run(self) -> int:
        """Serve until SIGINT or SIGTERM; return the exit code, 0 unless a worker had to be killed.

        Every worker completes the requests it has accepted. A second signal kills them all.
        """
        return asyncio.run(self._serve())

    async def _serve(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_stop_signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        config = self.load_config()
        self._slots = [WorkerSlot(number, config, listeners) for number, listeners in enumerate(self.listeners)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slot.supervise()) for slot in self._slots]
            tasks.append(group.create_task(self._replace_on_hangup()))
            await self._stop.wait()
            for task in tasks:
                task.cancel()
        await self._stop_workers()
        return self._code

    def _on_stop_signal(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            self._code = SIGNAL_EXIT_CODE_OFFSET + number
            for slot in self._slots:
                for worker in slot.alive:
                    worker.kill()
        self._stop.set()

    async def _replace_on_hangup(self) -> None:
        while True:
            await self._hangup.wait()
            # A signal that arrives from here on starts another round after this one.
            self._hangup.clear()
            try:
                await self._replace_all()
            except (ReplacementFailed, ValueError) as error:
                _log.error("Rolling replacement stopped; the remaining old workers stay: %s", error)

    async def _replace_all(self) -> None:
        config, current = self.load_config(), self._slots[0].config.settings
        fixed = {name: getattr(current, name) for name in _FIXED_SETTINGS}
        config = replace(config, settings=replace(config.settings, **fixed))
        for slot in self._slots:
            await slot.replace(config, self.ready_seconds)
        _log.info("All workers were replaced.")

    async def _stop_workers(self) -> None:
        exits = []
        for slot in self._slots:
            for worker in slot.alive:
                worker.stop()
                exits.append(slot.wait_exit(worker))
            # With a handle here the kernel would accept connections that no worker serves.
            slot.close_listeners()
        exited = await asyncio.gather(*exits)
        self._code = self._code or int(not all(exited))
        _log.info("All workers have exited.")
