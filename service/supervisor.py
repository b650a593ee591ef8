"""Runs several worker processes on one port: keeps them, replaces them one after the other, stops them in order."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from service.slot import NotReplaced, Plan, Slot
from service.stopping import SHELL_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.listening import Listeners

# From the start of a worker, imports included, until it has answered its first request for `/readyz`.
_READY_SECONDS = 30.0
# What the sockets were opened with cannot change under them.
_FIXED = ("host", "port", "workers", "metrics_port", "share_port")

_log = logging.getLogger("service")


@dataclass
class Supervisor:
    """The workers of one service, one for each of the listeners.

    SIGHUP replaces them all; `read` is asked for what the new ones are started with, and raises ValueError when that
    cannot be used.
    """

    read: Callable[[], Plan]
    listeners: Sequence[Listeners]
    ready_seconds: float = _READY_SECONDS
    _slots: list[Slot] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _hangup: asyncio.Event = field(default_factory=asyncio.Event)
    _code: int = 0

    def run(self) -> int:
        """Serve until SIGINT or SIGTERM; return the exit code, which is 0 when every worker ended by itself.

        Every worker finishes what it has accepted. A second signal ends them at once.
        """
        return asyncio.run(self._serve())

    async def _serve(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told, number)
        loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        plan = self.read()
        self._slots = [Slot(number, plan, listeners) for number, listeners in enumerate(self.listeners)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slot.keep()) for slot in self._slots]
            tasks.append(group.create_task(self._replace_when_told()))
            await self._stop.wait()
            for task in tasks:
                task.cancel()
        await self._end()
        return self._code

    def _told(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            self._code = SHELL_OFFSET + number
            for slot in self._slots:
                for worker in slot.alive:
                    worker.kill()
        self._stop.set()

    async def _replace_when_told(self) -> None:
        while True:
            await self._hangup.wait()
            # One that comes from here on asks for another round after this one.
            self._hangup.clear()
            try:
                await self._replace_all()
            except (NotReplaced, ValueError) as error:
                _log.error("The workers that are there stay: %s", error)

    async def _replace_all(self) -> None:
        plan, fixed = self.read(), self._slots[0].plan.settings
        kept = {name: getattr(fixed, name) for name in _FIXED}
        plan = replace(plan, settings=replace(plan.settings, **kept))
        for slot in self._slots:
            await slot.replace(plan, self.ready_seconds)
        _log.info("All workers were replaced.")

    async def _end(self) -> None:
        ending = []
        for slot in self._slots:
            for worker in slot.alive:
                worker.stop()
                ending.append(slot.ended(worker))
        ended = await asyncio.gather(*ending)
        self._code = self._code or int(not all(ended))
        _log.info("All workers have ended.")
