"""How commands print and end: texts that are safe for a terminal, exit codes, and graceful shutdown on a signal.

On failure there is one sentence on standard error and an exit code for the reason. On SIGINT and SIGTERM locks are
released, and a sentence reports what is kept.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

import click

from brokerage_feed.errors import printable

Handler = Callable[[int, object], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Shells report a command that a signal ended as this plus the number of the signal.
_SHELL_OFFSET = 128


def echo(text: str | bytes = "", *, err: bool = False) -> None:
    """Print a text and a line break, with control characters visible; JSON stays valid."""
    click.echo(printable(text if isinstance(text, str) else text.decode()), err=err)


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    LOCKED = 4
    REPAIRED = 5


def fail(sentence: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    """Print the reason and exit."""
    echo(sentence, err=True)
    sys.exit(code)


class StoppedBySignal(BaseException):
    """SIGINT or SIGTERM arrived; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def exit_on_signal(sentence: str = "Stopped.") -> Iterator[None]:
    """Exit with a sentence and 130 on SIGINT, 143 on SIGTERM."""
    try:
        with _install_handler(_raise_stopped):
            yield
    except StoppedBySignal as stop:
        echo(sentence, err=True)
        sys.exit(_SHELL_OFFSET + stop.number)


@contextmanager
def cancel_on_signal() -> Iterator[None]:
    """Cancel the current task on a signal, so that it can release its locks; then raise StoppedBySignal."""
    task, loop, numbers = asyncio.current_task(), asyncio.get_running_loop(), list[int]()

    def cancel(number: int, _frame: object) -> None:
        numbers.append(number)
        # Threadsafe, since that also wakes the event loop.
        loop.call_soon_threadsafe(task.cancel)  # type: ignore[union-attr]

    try:
        with _install_handler(cancel):
            yield
    except asyncio.CancelledError:
        if numbers:
            raise StoppedBySignal(numbers[0]) from None
        raise


def _raise_stopped(number: int, _frame: object) -> NoReturn:
    raise StoppedBySignal(number)


@contextmanager
def _install_handler(handler: Handler) -> Iterator[None]:
    """Handle the signals; only in the main thread, since other threads never receive them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
