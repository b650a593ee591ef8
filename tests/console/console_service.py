"""The service with its private port, as it is run, and a clock that a test can move."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession
from multidict import CIMultiDictProxy

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.console.consumers import ConsumerRegistry
from service.console.overview import add_console
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from service.http.requests import allowed_hosts_middleware
from service.services import SERVICES, Services
from service.settings import ServiceSettings
from service.telemetry.metrics import create_metrics_app
from tests.service.raw_http import listening

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"


@dataclass
class MovableClock:
    """Seconds since 1970, which advance only when moved."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        """Return them."""
        return self.now


@dataclass
class ConsoleService:
    """A service that runs."""

    port: int
    private_port: int
    services: Services
    watch: HealthMonitor
    clock: MovableClock
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
        """Return the faults that are shown."""
        return [notice["text"] for notice in (await self.data())["notices"]]


@asynccontextmanager
async def serve_console(
    connection: ConnectionSettings, clock: MovableClock | None = None, private_port: int = 0, **settings: Any
) -> AsyncIterator[ConsoleService]:
    """Serve over an engine; values that were read are not kept."""
    chosen, moved = ServiceSettings(**{"shared_seconds": 0.0, **settings}), clock or MovableClock()
    app = create_app(chosen, connection)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(app, chosen))
        services = app[SERVICES]
        services.of(ConsumerRegistry)._clock = moved
        operators = create_metrics_app(services)
        operators.middlewares.append(allowed_hosts_middleware(chosen.metrics_allowed_hosts))
        add_console(app, operators, moved)
        private = await stack.enter_async_context(listening(operators, chosen, private_port))
        http = await stack.enter_async_context(ClientSession())
        yield ConsoleService(port, private, services, app[HEALTH_MONITOR], moved, http)
