"""Clients that request large pages and disconnect: no search or connection of theirs may remain."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tests.chaos.loaded_service import load_cluster
from tests.chaos.scenario_result import ScenarioResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.chaos.loaded_service import LoadedCluster, RunningServe
    from tests.network.proxy import Proxy

_PATIENCE_SECONDS = 0.05
# A search that is still running this long after its client has disconnected was not cancelled.
_LIMIT_SECONDS = 2.0
# One client after the other, so that most of their searches are running when they disconnect.
_SPREAD_SECONDS = 0.005
_CONNECTIONS = 64
_ESTABLISHED = "01"


@dataclass(frozen=True)
class _SearchMonitor:
    """The searches of one stage, and the service's connections to Elasticsearch."""

    session: aiohttp.ClientSession
    stage: LoadedCluster
    serving: RunningServe
    elasticsearch: str  # the address at which the service reaches it

    async def in_flight(self) -> int:
        """Return the number of searches that Elasticsearch is running."""
        found = await self._get("/_tasks?actions=*search*&detailed=true")
        tasks = [task for node in found["nodes"].values() for task in node["tasks"].values()]
        return len([task for task in tasks if self.stage.connection.prefix in task["description"]])

    async def finished(self) -> int:
        """Return the number of searches of the listings that Elasticsearch has completed."""
        found = await self._get(f"/{self.stage.connection.prefix}listings/_stats/search")
        return int(found["_all"]["total"]["search"]["query_total"])

    async def _get(self, path: str) -> Any:
        async with self.session.get(self.stage.connection.url[0] + path) as response:
            return await response.json()

    def connections(self) -> int:
        """Return the number of connections from the service to Elasticsearch."""
        port = f"{urlsplit(self.elasticsearch).port:04X}"
        process = Path("/proc") / str(self.serving.process.pid)
        links = [str(descriptor.readlink()) for descriptor in (process / "fd").iterdir()]
        rows = [line.split() for line in (process / "net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        remote = [f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port}") and row[3] == _ESTABLISHED]
        return len({*remote} & {*links})

    async def page(self, path: str) -> int:
        """Request a page and return its status."""
        async with self.session.get(self.serving.url + path, headers={"x-api-key": self.stage.key}) as response:
            await response.read()
            return response.status


async def hang_ups(
    urls: Sequence[str], clients: int = 500, listings: int = 4_000, proxy: Proxy | None = None
) -> ScenarioResult:
    """Disconnect clients, each while its own large page is being produced.

    A proxy in front of Elasticsearch holds their searches until they have left: all must be cancelled then. Without
    one, how many are cancelled depends on how long they take.
    """
    # Otherwise most would be refused immediately, and nothing would be abandoned.
    async with (
        load_cluster(urls, listings) as stage,
        stage.service(
            urls=[proxy.url] if proxy else (),
            elasticsearch_connections=_CONNECTIONS,
            concurrency=clients,
            queue=clients,
        ) as serving,
        aiohttp.ClientSession() as session,
    ):
        sight = _SearchMonitor(session, stage, serving, proxy.url if proxy else urls[0])
        paths = _paths(stage, clients)
        first = await sight.page(paths[0])
        connected, finished = sight.connections(), await sight.finished()
        async with _held(proxy):
            await asyncio.gather(*(_hang_up(serving.url, stage.key, path, at) for at, path in enumerate(paths[1:])))
            await asyncio.sleep(_LIMIT_SECONDS)
        left, ended = await sight.in_flight(), await sight.finished() - finished
        figures = {
            f"searches running {_LIMIT_SECONDS:.0f} s after the last disconnect": str(left),
            "searches cancelled": str(clients - ended),
            "connections to Elasticsearch before and after": f"{connected} and {sight.connections()}",
        }
        last = await sight.page(paths[0])
        cancelled_enough = clients - ended >= (clients if proxy else 1)
        violations = _violations(sight, left, cancelled_enough, (first, last))
    return ScenarioResult(
        fault=f"{clients} clients disconnect after {_PATIENCE_SECONDS * 1000:.0f} ms",
        requests=clients + 2,
        wrong=0,
        failed=2 - [first, last].count(200),
        outage_seconds=0.0,
        figures=figures,
        violations=violations,
    )


@asynccontextmanager
async def _held(proxy: Proxy | None) -> AsyncIterator[None]:
    """Hold all requests to Elasticsearch until the end; what the service has given up by then is not sent."""
    if proxy:
        proxy.to_node.freeze()
    yield
    if proxy:
        await proxy.heal()
        await asyncio.sleep(_LIMIT_SECONDS)


def _paths(stage: LoadedCluster, clients: int) -> list[str]:
    """Return a separate page for each client, and one more that comes first."""
    lines = (stage.source / "listings.ndjson").read_bytes().splitlines()
    companies = sorted({msgspec.json.decode(line)["platform_company_id"] for line in lines})
    return [
        f"/v1/listings?platform_company_id={companies[at % len(companies)]}&updated_since={at + 1}&page_size=1000"
        for at in range(clients + 1)
    ]


async def _hang_up(url: str, key: str, path: str, at: int) -> None:
    await asyncio.sleep(at * _SPREAD_SECONDS)
    address = urlsplit(url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: service\r\nx-api-key: {key}\r\n\r\n".encode())
    await asyncio.sleep(_PATIENCE_SECONDS)
    # Some close the connection gracefully, others do not.
    if at % 2:
        writer.close()
    else:
        writer.transport.abort()


def _violations(sight: _SearchMonitor, left: int, cancelled_enough: bool, statuses: tuple[int, int]) -> list[str]:
    log = sight.serving.log.read_text(encoding="utf-8")
    held = {
        f"{left} searches were left in Elasticsearch after {_LIMIT_SECONDS:.0f} s.": not left,
        "Searches ran to their end although their clients had left.": cancelled_enough,
        "The log has an ERROR or a traceback.": "ERROR" not in log and "Traceback" not in log,
        f"Pages before and after were answered {statuses}.": statuses == (200, 200),
        "Connections to Elasticsearch stayed open.": sight.connections() <= _CONNECTIONS,
    }
    return [violation for violation, holds in held.items() if not holds]
