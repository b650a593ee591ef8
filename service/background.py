"""Work that a process does for as long as it runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

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
