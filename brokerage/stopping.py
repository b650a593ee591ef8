"""SIGINT and SIGTERM end a command in order: what it holds is given back, and a sentence says what stays."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import rich_click as click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Handler = Callable[[int, object], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# What shells add to the number of the signal that ended a command.
_SHELL_OFFSET = 128


class Stopped(BaseException):
    """A signal has come; `number` says which."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


@contextmanager
def stoppable(sentence: str = "Stopped.") -> Iterator[None]:
    """End the command with a sentence and 130 on SIGINT, 143 on SIGTERM."""
    try:
        with _handled(_raise):
            yield
    except Stopped as stop:
        click.echo(sentence, err=True)
        sys.exit(_SHELL_OFFSET + stop.number)


@contextmanager
def cancelled_by_signals() -> Iterator[None]:
    """Cancel the current task on a signal, so that it can let go of what it holds; raise Stopped at its end."""
    task, loop, numbers = asyncio.current_task(), asyncio.get_running_loop(), list[int]()

    def cancel(number: int, _frame: object) -> None:
        numbers.append(number)
        # It also wakes a loop that waits.
        loop.call_soon_threadsafe(task.cancel)  # type: ignore[union-attr]

    try:
        with _handled(cancel):
            yield
    except asyncio.CancelledError:
        if numbers:
            raise Stopped(numbers[0]) from None
        raise


def _raise(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


@contextmanager
def _handled(handler: Handler) -> Iterator[None]:
    """Handle the signals, which reach the main thread of a process only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
