"""The service with its private port, as it is run, and a clock that a test can move."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession, web

from service.app import SERVICES, create_app
from service.console.serving import operators_app
from service.health import WATCH
from service.protocol import ServiceRunner
from service.settings import ServiceSettings
from tests.service.raw import _port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from multidict import CIMultiDictProxy

    from cluster.connection import ConnectionSettings
    from service.services import Services
    from service.watch import Watch

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"


@dataclass
class Clock:
    """Seconds since 1970, which stand still unless they are moved."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        """Return them."""
        return self.now


@dataclass
class Operated:
    """A service that runs."""

    port: int
    private_port: int
    services: Services
    watch: Watch
    clock: Clock
    http: ClientSession

    @property
    def url(self) -> str:
        """The origin of the private port."""
        return f"http://127.0.0.1:{self.private_port}"

    async def get(self, path: str, key: str | None = None) -> int:
        """Return the status of an answer of the service, once all of it was read."""
        headers = {} if key is None else {"x-api-key": key}
        async with self.http.get(f"http://127.0.0.1:{self.port}{path}", headers=headers) as answer:
            await answer.read()
            return answer.status

    async def private(self, path: str) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """Return what the private port answers."""
        async with self.http.get(self.url + path) as answer:
            return answer.status, answer.headers, await answer.read()

    async def data(self) -> Any:
        """Return what the page is drawn from."""
        async with self.http.get(f"{self.url}/console/data.json") as answer:
            assert answer.status == 200
            return await answer.json()

    async def notices(self) -> list[str]:
        """Return what is told not to be well."""
        return [notice["text"] for notice in (await self.data())["notices"]]


@asynccontextmanager
async def operated(
    connection: ConnectionSettings, clock: Clock | None = None, private_port: int = 0, **settings: Any
) -> AsyncIterator[Operated]:
    """Serve over an engine; values that were read are not kept."""
    chosen, moved = ServiceSettings(**{"shared_seconds": 0.0, **settings}), clock or Clock()
    app = create_app(chosen, connection)
    async with AsyncExitStack() as stack:
        port = await _port(stack, ServiceRunner(app, chosen))
        services = app[SERVICES]
        services.consumers._clock = moved
        runner = ServiceRunner(operators_app(app, moved), chosen)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", private_port).start()
        http = await stack.enter_async_context(ClientSession())
        yield Operated(port, int(runner.addresses[0][1]), services, app[WATCH], moved, http)
