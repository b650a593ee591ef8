"""Listens between the service and Elasticsearch, to learn what the service really asks for a request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

_HOP = {"content-length", "transfer-encoding", "connection", "host"}  # headers of one connection


@dataclass(frozen=True)
class Heard:
    """One request to Elasticsearch: its path with its query, and its body."""

    method: str
    target: str
    body: bytes


@dataclass
class Tap:
    """All that was asked since the tap was opened."""

    url: str
    heard: list[Heard] = field(default_factory=list)

    def of(self, index: str, since: int) -> list[Heard]:
        """Return what was asked of the indices whose names begin so, from the given place on."""
        return [each for each in self.heard[since:] if each.target.startswith(f"/{index}")]


@asynccontextmanager
async def tapped(upstream: str, port: int) -> AsyncIterator[Tap]:
    """Serve on a port of this machine, pass everything on to `upstream`, and write it down."""
    tap = Tap(f"http://127.0.0.1:{port}")
    async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as session:

        async def answer(request: web.Request) -> web.Response:
            body = await request.read()
            tap.heard.append(Heard(request.method, request.raw_path, body))
            kept = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
            async with session.request(request.method, upstream + request.raw_path, data=body, headers=kept) as got:
                back = {name: value for name, value in got.headers.items() if name.lower() not in _HOP}
                return web.Response(status=got.status, body=await got.read(), headers=back)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield tap
        finally:
            await runner.cleanup()
