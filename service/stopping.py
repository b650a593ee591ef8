"""How a process of the service is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from multiprocessing import parent_process

# A worker that has been replaced gets it: another listens on its sockets, so it lets go of them before it drains.
REPLACED = signal.SIGUSR1
# What shells add to the number of the signal that ended a command.
SHELL_OFFSET = 128


class Stop:
    """Whether the process was told to stop, and how."""

    def __init__(self) -> None:
        """Begin to listen to signals, and to the end of the supervisor where there is one."""
        self.told = asyncio.Event()
        self.is_replaced = False
        loop, parent = asyncio.get_running_loop(), parent_process()
        if parent is None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._by_hand, number)
            return
        # A service manager sends it to every process, and so does the supervisor: a second one is the same one.
        loop.add_signal_handler(signal.SIGTERM, self.told.set)
        loop.add_signal_handler(REPLACED, self._replaced)
        # A worker ends with its supervisor, even when that one was killed.
        loop.add_reader(parent.sentinel, self._orphaned, parent.sentinel)

    def _by_hand(self, number: signal.Signals) -> None:
        if self.told.is_set():
            os._exit(SHELL_OFFSET + number)
        self.told.set()

    def _replaced(self) -> None:
        self.is_replaced = True
        self.told.set()

    def _orphaned(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        self.told.set()
