"""Supervisor of several worker processes on one port: restarts, rolling replacement and graceful shutdown."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from service.workers.shutdown import SIGNAL_EXIT_CODE_OFFSET
from service.workers.slot import ReplacementFailed, WorkerPoolConfig, WorkerSlot
from service.workers.sockets import ListenSockets

# From the start of a worker, including imports, until it is ready.
_READY_SECONDS = 30.0
# Settings of the sockets, which stay open across replacements.
_FIXED_SETTINGS = ("host", "port", "workers", "metrics_host", "metrics_port", "share_port")

_log = logging.getLogger("service")


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
