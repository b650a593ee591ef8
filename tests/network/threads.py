"""Servers and proxies in a thread of their own, for tests that block in theirs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_thread(opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter a context in the event loop of another thread, and leave it there."""
    started, entered, over = threading.Event(), list[T](), asyncio.Event()

    async def run() -> None:
        try:
            async with opened as value:
                entered.append(value)
                started.set()
                await over.wait()
        finally:
            started.set()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(run(),))
        thread.start()
        started.wait()
        try:
            yield entered[0]
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
