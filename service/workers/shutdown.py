"""Shutdown signals of a service process."""

import asyncio
import os
import signal
from multiprocessing import parent_process

# Sent to a worker that has been replaced: another listens on its sockets, so it closes them before it drains.
REPLACED_SIGNAL = signal.SIGUSR1
# Shells add this to the number of the signal that ended a command.
SIGNAL_EXIT_CODE_OFFSET = 128


class ShutdownRequest:
    """Whether a shutdown was requested, and whether the process has been replaced."""

    def __init__(self) -> None:
        """Handle signals, and the exit of the supervisor if there is one."""
        self.requested = asyncio.Event()
        self.is_replaced = False
        loop, parent = asyncio.get_running_loop(), parent_process()
        if parent is None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._on_signal, number)
            return
        # The service manager and the supervisor may both send it, so a second one does not force an exit.
        loop.add_signal_handler(signal.SIGTERM, self.requested.set)
        loop.add_signal_handler(REPLACED_SIGNAL, self._on_replaced)
        # A worker ends with its supervisor, even if that was killed.
        loop.add_reader(parent.sentinel, self._on_supervisor_exit, parent.sentinel)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            os._exit(SIGNAL_EXIT_CODE_OFFSET + number)
        self.requested.set()

    def _on_replaced(self) -> None:
        self.is_replaced = True
        self.requested.set()

    def _on_supervisor_exit(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        self.requested.set()
