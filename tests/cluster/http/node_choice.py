"""Several scripted servers behind one client, as the service has it, with time that runs fast for the pulse."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import cast

import pytest
from elastic_transport import AsyncTransport

from cluster.connection import ConnectionSettings, connect
from cluster.http.nodes import LeastRequestsPool, ReadingNode
from cluster.http.responses import RAW_HEADERS
from tests.cluster.http.http_responses import with_length
from tests.internals import Internals
from tests.network.server import Connection, Script, Server, serving
from tests.waiting import until

# A fortieth of the product's: patience for an answer of a server in the same thread is then about 0.1 seconds.
TICK_SECONDS = 0.025
HEADERS = (b"X-Elastic-Product: Elasticsearch", b"Content-Type: application/json")


@pytest.fixture(autouse=True)
def short_ticks(internals: Internals) -> None:
    internals(node_tick_seconds=TICK_SECONDS)


@dataclass
class NodeChoice:
    """A client and the servers that it chooses among, in the order of their scripts."""

    servers: list[Server]
    transport: AsyncTransport

    def node(self, at: int) -> ReadingNode:
        nodes = cast("list[ReadingNode]", self.transport.node_pool.all())
        return next(node for node in nodes if node.port == self.servers[at].port)

    def pulse(self, at: int) -> tuple[object, asyncio.Task[None] | None]:
        """Return the timer of a node and the question that is being asked, None for none."""
        health = self.node(at).health
        return health._timer, health._probe_task

    async def ask(self, within: float = 60.0, target: str = "/search") -> str:
        response = await self.transport.perform_request(
            "GET", target, headers=RAW_HEADERS, max_retries=0, request_timeout=within
        )
        return str(json.loads(response.body))

    def searches(self, at: int) -> int:
        return len(self.servers[at].requests) - self.probe_requests(at)

    def probe_requests(self, at: int) -> int:
        """Return how many questions of the pulse a server has read."""
        return len(probe_requests(self.servers[at]))


@asynccontextmanager
async def choose_among(*scripts: Script, connections: int = 64) -> AsyncIterator[NodeChoice]:
    """Serve scripts, each on a port of its own, and yield a client of all of them."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(script)) for script in scripts]
        client = connect(
            ConnectionSettings(url=tuple(f"http://127.0.0.1:{server.port}" for server in servers)),
            connections=connections,
            timeout=60,
            node_class=ReadingNode,
            node_pool_class=LeastRequestsPool,
            transport_class=AsyncTransport,  # as the service has it: each request is sent once
        )
        async with client:
            yield NodeChoice(servers, client.transport)


def answer_with_name(name: str, *, status: bytes = b"200 OK", after: float = 0.0) -> Script:
    """Return the script of a node that answers searches with its name, the pulse at once."""

    async def script(connection: Connection) -> None:
        while True:
            if (await connection.request()).startswith(b"HEAD"):
                await connection.send(with_length(b"", *HEADERS))
                continue
            await asyncio.sleep(after)
            await connection.send(with_length(json.dumps(name).encode(), *HEADERS, first=b"HTTP/1.1 %b\r\n" % status))

    return script


def probe_requests(server: Server) -> list[bytes]:
    """Return the questions of the pulse that a server has read."""
    return [request for request in server.requests if request.startswith(b"HEAD / ")]


def slow_node(name: str, *, times: int) -> Script:
    """Return the script of a node that answers searches once it was asked by the pulse so many times."""

    async def script(connection: Connection) -> None:
        while True:
            is_question = (await connection.request()).startswith(b"HEAD")
            if not is_question:
                await until(lambda: len(probe_requests(connection.server)) >= times)
            await connection.send(with_length(b"" if is_question else json.dumps(name).encode(), *HEADERS))

    return script


def frozen_node(name: str, thawed: asyncio.Event, *, begun: bytes = b"") -> Script:
    """Return the script of a node that takes connections and answers nothing, beyond `begun`, until it is thawed."""

    async def script(connection: Connection) -> None:
        if begun and not thawed.is_set() and not (await connection.request()).startswith(b"HEAD"):
            await connection.send(begun)
        await thawed.wait()
        await answer_with_name(name)(connection)

    return script
