"""Work that a process does for as long as it runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

_RESTART_SECONDS = 1.0

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
