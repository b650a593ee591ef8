"""Running a server: in the loop of an asynchronous test, or in a thread of its own for readers that are processes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tests.reso.server.reso_server import ResoServer
from tests.reso.server.server_settings import ServerSettings
from tests.reso.world.generated_world import World

_PATIENCE_SECONDS = 60


@asynccontextmanager
async def serve_in_loop(
    settings: ServerSettings | None = None, world: World | None = None
) -> AsyncIterator[ResoServer]:
    server = ResoServer(settings)
    if world is not None:
        world.put_into(server)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextmanager
def serve_in_thread(settings: ServerSettings | None = None, world: World | None = None) -> Iterator[ResoServer]:
    """Serve on a port from a thread with a loop of its own; data may be changed from any thread."""
    loop, serving = asyncio.new_event_loop(), serve_in_loop(settings, world)
    thread = threading.Thread(target=loop.run_forever, name="reso server", daemon=True)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(_PATIENCE_SECONDS)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(_PATIENCE_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_SECONDS)
        loop.close()
