"""The floor: what any program on this HTTP library costs that passes Elasticsearch's bytes on untouched.

`python -m bench.floor --port P --upstream URL --body FILE`: GET /?cursor=… sends the prepared body, with the
cursor put in its place, and answers what came. No key, no parameters, no check, no log.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Stands in the prepared body where the cursor goes, and is as long as any cursor that is put there.
SENTINEL = "5eed5eed"
_CONNECTIONS = 64
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_SESSION = web.AppKey("session", aiohttp.ClientSession)


def create_app(target: str, body: bytes) -> web.Application:
    """Return the application that posts `body` to `target`."""

    async def session(app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as opened:
            app[_SESSION] = opened
            yield

    async def answer(request: web.Request) -> web.Response:
        sent = body.replace(SENTINEL.encode(), request.query["cursor"].encode())
        async with request.app[_SESSION].post(target, data=sent) as response:
            return web.Response(body=await response.read(), status=response.status, content_type="application/json")

    app = web.Application()
    app.cleanup_ctx.append(session)
    app.router.add_get("/", answer)
    return app


async def _serve(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="the address that is asked, path and query included")
    parser.add_argument("--body", type=Path, required=True, help="file with the body that is sent")
    options = parser.parse_args()
    uvloop.run(_serve(create_app(options.upstream, options.body.read_bytes()), options.port))


if __name__ == "__main__":
    main()
