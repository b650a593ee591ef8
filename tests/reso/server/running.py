"""Running a server: in the loop of an asynchronous test, or in a thread of its own for readers that are processes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from tests.reso.server.reso_server import ResoServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from tests.reso.server.server_settings import ServerSettings
    from tests.reso.world.generated_world import World

_PATIENCE_SECONDS = 60


@asynccontextmanager
async def serve_in_loop(
    settings: ServerSettings | None = None, world: World | None = None
) -> AsyncIterator[ResoServer]:
    """Serve in the running loop."""
    server = _filled(settings, world)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextmanager
def serve_in_thread(settings: ServerSettings | None = None, world: World | None = None) -> Iterator[ResoServer]:
    """Serve on a port from a thread with a loop of its own; data may be changed from any thread."""
    server = _filled(settings, world)
    with _loop_of_its_own() as loop:
        _finish(server.start(), loop)
        try:
            yield server
        finally:
            _finish(server.stop(), loop)


def _filled(settings: ServerSettings | None, world: World | None) -> ResoServer:
    server = ResoServer(settings)
    if world is not None:
        world.put_into(server)
    return server


@contextmanager
def _loop_of_its_own() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="reso server", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_SECONDS)
        loop.close()


def _finish(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(_PATIENCE_SECONDS)
