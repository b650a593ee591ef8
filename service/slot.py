"""A worker's place: whoever dies there is replaced, and whoever works there can be."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.listening import CannotListen, Listeners, listen_as
from service.worker import Order, Worker, WorkerEnded

if TYPE_CHECKING:
    from cluster.connection import ConnectionSettings
    from service.settings import ServiceSettings

# A worker that dies sooner than this is one that dies again and again.
_LIVED_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# Connections wait for the next worker in the socket of the last one, but not for longer than this.
_WAITING_SECONDS = 1.0
# What a worker may take to end after the last request has had its time.
_ENDING_SECONDS = 5.0

_log = logging.getLogger("service")


class NotReplaced(Exception):
    """A worker stays where it is, since no other became ready to take its place; the text says why."""


@dataclass(frozen=True)
class Plan:
    """What workers are started with."""

    settings: ServiceSettings
    connection: ConnectionSettings

    @property
    def ending_seconds(self) -> float:
        """The longest time from telling a worker to end until it has ended, if it is sound."""
        return self.settings.drain_seconds + self.settings.deadline_seconds + _ENDING_SECONDS


class Slot:
    """The place of one worker, with the sockets that belong to it."""

    def __init__(self, number: int, plan: Plan, listeners: Listeners) -> None:
        """Start the first worker; slots are counted from 0."""
        self.plan = plan
        self.alive: set[Worker] = set()  # the worker, one that is to replace it, one that was replaced
        self._number = number
        self._listeners: Listeners | None = listeners
        self._early_deaths = 0
        self._worker = self._start(plan)

    async def keep(self) -> None:
        """Start another worker whenever one has died: at once, or after a growing pause when it died early."""
        while True:
            worker = self._worker
            cause = await self._end_of(worker)
            if worker is not self._worker:
                continue
            pause = self._pause(worker)
            _log.warning("%s ended: %s. Another is started in %g s.", worker, cause, pause)
            if pause > _WAITING_SECONDS:
                self._close()
            await asyncio.sleep(pause)
            while worker is self._worker:
                try:
                    self._worker = self._start(self.plan)
                except CannotListen as error:
                    _log.error("%s", error)
                    await asyncio.sleep(_LONGEST_PAUSE_SECONDS)

    async def replace(self, plan: Plan, ready_seconds: float) -> None:
        """Start another worker, and once it is ready for requests let the one go that is there.

        Raises NotReplaced when it does not become ready in time: then the one that is there stays.
        """
        worker = await self._ready(plan, ready_seconds)
        old, self._worker, self.plan = self._worker, worker, plan
        old.replaced()
        _log.info("%s is replaced by %s.", old, worker)
        await self.ended(old)

    async def ended(self, worker: Worker) -> bool:
        """Wait for the end of a worker that was told to end; kill it and return False when it takes too long."""
        try:
            async with asyncio.timeout(self.plan.ending_seconds):
                await self._end_of(worker)
        except TimeoutError:
            _log.warning("%s has not ended in time and is killed.", worker)
            worker.kill()
            await self._end_of(worker)
            return False
        return True

    async def _end_of(self, worker: Worker) -> str:
        cause = await worker.ended()
        self.alive.discard(worker)
        return cause

    async def _ready(self, plan: Plan, seconds: float) -> Worker:
        try:
            worker = self._start(plan, ready_first=True)
        except CannotListen as error:
            raise NotReplaced(str(error)) from error
        try:
            async with asyncio.timeout(seconds):
                await worker.listening()
        except WorkerEnded as error:
            raise NotReplaced(f"{worker} ended before it was ready: {error}.") from error
        except TimeoutError as error:
            worker.kill()
            await self._end_of(worker)
            raise NotReplaced(f"{worker} was not ready within {seconds:g} s.") from error
        return worker

    def _start(self, plan: Plan, *, ready_first: bool = False) -> Worker:
        if self._listeners is None:
            self._listeners = listen_as(self._number, plan.settings)
        order = Order(plan.settings, plan.connection, self._listeners, ready_first)
        worker = Worker(self._number, order)
        self.alive.add(worker)
        return worker

    def _pause(self, died: Worker) -> float:
        lived = asyncio.get_running_loop().time() - died.since
        self._early_deaths = 0 if lived >= _LIVED_SECONDS else self._early_deaths + 1
        if not self._early_deaths:
            return 0.0
        return min(_FIRST_PAUSE_SECONDS * 2.0 ** (self._early_deaths - 1), _LONGEST_PAUSE_SECONDS)

    def _close(self) -> None:
        """Have the kernel send all connections to the other workers."""
        if self._listeners is not None and len(self.alive) == 0:
            self._listeners.close()
            self._listeners = None
