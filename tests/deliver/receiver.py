"""A receiver of deliveries over HTTP: what it was sent, and how it answers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

# Takes the number of the request and returns the answer, or a status.
Behaviour = Callable[[int], Awaitable[web.Response | int]]


async def accept(_: int) -> int:
    """Accept everything."""
    return 204


@dataclass
class Delivery:
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.time)  # in seconds since 1970

    @cached_property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


@dataclass
class Receiver:
    """What arrived, and of that what was accepted, in order."""

    behaviour: Behaviour = accept
    url: str = ""
    arrived: list[Delivery] = field(default_factory=list)
    accepted: list[Delivery] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        delivery = Delivery({name.lower(): value for name, value in request.headers.items()}, await request.read())
        self.arrived.append(delivery)
        answer = await self.behaviour(len(self.arrived))
        response = web.Response(status=answer) if isinstance(answer, int) else answer
        if response.status < 300:
            self.accepted.append(delivery)
        return response

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All changes that were accepted, in order."""
        return [entry for delivery in self.accepted for entry in delivery.content["data"]["changes"]]

    async def until(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until something holds of what has arrived."""
        async with asyncio.timeout(seconds):
            while not done():  # noqa: ASYNC110 - what is awaited is any state
                await asyncio.sleep(0.02)


@asynccontextmanager
async def receiving(behaviour: Behaviour = accept, port: int | None = None) -> AsyncIterator[Receiver]:
    """Serve a receiver on this host."""
    receiver, app = Receiver(behaviour), web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/hook", receiver.handle)
    async with TestServer(app, port=port) as server:
        receiver.url = str(server.make_url("/hook"))
        yield receiver
