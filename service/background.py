"""Background tasks of a process, and long loops that let other requests run in between."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

Element = TypeVar("Element")
_RESTART_SECONDS = 1.0
# Of processor time: a fifth of what a page takes.
_TURN_SECONDS = 0.002

_log = logging.getLogger("service")


async def keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run until it returns. After an unexpected error, log it and start again: it must not end silently."""
    while True:
        try:
            return await run()
        except Exception:
            _log.exception("%s failed and starts again", run.__qualname__)
        await asyncio.sleep(_RESTART_SECONDS)


@asynccontextmanager
async def running(*work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do some work in the background until the end of the context."""
    tasks = [asyncio.create_task(keep_running(run)) for run in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def in_turns(elements: Iterable[Element]) -> AsyncIterator[Element]:
    """Yield elements; after each 2 ms of work on them, other work of the event loop runs first."""
    began = time.thread_time()
    for element in elements:
        yield element
        if time.thread_time() - began >= _TURN_SECONDS:
            await asyncio.sleep(0)
            began = time.thread_time()


async def batches_in_turns(elements: Sequence[Element], size: int) -> AsyncIterator[Sequence[Element]]:
    """Yield elements in batches of `size`, as `in_turns` does."""
    async for at in in_turns(range(0, len(elements), size)):
        yield elements[at : at + size]
