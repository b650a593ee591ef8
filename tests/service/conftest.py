"""The service in front of a stand-in for Elasticsearch, both over real HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient, AiohttpServer

from cluster.connection import ConnectionSettings
from service.app import create_app
from tests.loops import run
from tests.service.stand_in import StandIn
from tests.service_settings import service_settings

Open = Callable[..., Awaitable[TestClient[Any, Any]]]

__all__ = ["run"]

# A request line longer than the service accepts must reach it, as in `service.workers.worker`.
_LONGEST_LINE_BYTES = 65_536
# What happens at the deadline is tried with the first of these; with the next where a busy machine let it pass before a
# search had begun.
DEADLINES_SECONDS = (0.4, 2.0, 15.0)


@pytest.fixture
async def stand_in() -> AsyncIterator[StandIn]:
    """A stand-in without documents."""
    stand_in = StandIn()
    async with stand_in.running():
        yield stand_in


@pytest.fixture
def open_api(stand_in: StandIn, aiohttp_server: AiohttpServer, aiohttp_client: AiohttpClient) -> Open:
    """Open a client of the service that reads the stand-in, with non-default settings if given."""

    async def open_client(**settings: Any) -> TestClient[Any, Any]:
        # Without waiting for settled watermarks in a process that has just started, and with one key for all clients.
        settings = {"shared_seconds": 0.0, "key_concurrency": 0, **settings}
        app = create_app(service_settings(**settings), ConnectionSettings(url=(stand_in.url,)))
        server = await aiohttp_server(app, max_line_size=_LONGEST_LINE_BYTES)
        return await aiohttp_client(server)

    return open_client


@pytest.fixture
async def api(open_api: Open) -> TestClient[Any, Any]:
    """A client of the service with default settings."""
    return await open_api()
