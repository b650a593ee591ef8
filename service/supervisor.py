"""Runs several worker processes on one port: starts them, replaces one that dies, stops them in order."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from service.run import CannotListen, run

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from types import FrameType

    from cluster.connection import ConnectionSettings
    from service.settings import ServiceSettings

# A worker that dies at once is replaced at this pace, not in a busy loop.
_RESTART_SECONDS = 0.5

# A fresh interpreter for each worker: nothing of the parent's state or signal handlers leaks in.
_CONTEXT = multiprocessing.get_context("spawn")


def _work(settings: ServiceSettings, connection: ConnectionSettings) -> None:
    try:
        run(settings, connection)
    except CannotListen as error:
        sys.exit(str(error))


@dataclass
class Supervisor:
    """The workers of one service."""

    settings: ServiceSettings
    connection: ConnectionSettings
    workers: list[BaseProcess] = field(default_factory=list)
    stopping: bool = False

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; every worker then finishes what it has accepted."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self.workers = [self._start(number) for number in range(self.settings.workers)]
        while not self.stopping:
            time.sleep(_RESTART_SECONDS)
            self._replace_dead()
        for worker in self.workers:
            worker.join()

    def _start(self, number: int) -> BaseProcess:
        # Workers share the port of the API but not their metrics: each is asked for its own.
        port = self.settings.metrics_port and self.settings.metrics_port + number
        settings = replace(self.settings, metrics_port=port)
        worker = _CONTEXT.Process(target=_work, args=(settings, self.connection), daemon=True)
        worker.start()
        return worker

    def _replace_dead(self) -> None:
        if not self.stopping:
            self.workers = [
                worker if worker.is_alive() else self._start(number) for number, worker in enumerate(self.workers)
            ]

    def _stop(self, *_: int | FrameType | None) -> None:
        self.stopping = True
        for worker in self.workers:
            worker.terminate()
