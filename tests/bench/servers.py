"""Small real servers for the client's tests."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[str, None]:
    """Serve every path by a handler of aiohttp; give the address."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def writing(pieces: Sequence[bytes], *, hang_up: bool = False) -> AsyncGenerator[str, None]:
    """Answer each request by writing these bytes one after the other; give the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                # So that each piece arrives by itself.
                await asyncio.sleep(0.001)
            if hang_up:
                break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        # Since Python 3.12 the end of `async with server` waits for its connections, which the client keeps.
        server.close()
