"""Clients that request large pages and disconnect: no search or connection of theirs may remain."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tests.chaos.loaded_service import LoadedCluster, RunningServe, load_cluster
from tests.chaos.scenario_result import ScenarioResult
from tests.network.proxy import Proxy
from tests.waiting import until

# How long a client stays where nothing holds its search.
_PATIENCE_SECONDS = 0.05
# A search that is still running this long after its client has disconnected was not cancelled.
_LIMIT_SECONDS = 2.0
# One client after the other, so that most of their searches are running when they disconnect.
_SPREAD_SECONDS = 0.005
_CONNECTIONS = 64
# Of a service whose searches are held: all have a slot at a time, and the clients leave before their deadline.
_HELD_DEADLINE_SECONDS = 120
_SLOTS_PER_LARGE_PAGE = 4
_ESTABLISHED = "01"


@dataclass(frozen=True)
class _SearchMonitor:
    """The searches of one stage, and the service's connections to Elasticsearch."""

    session: aiohttp.ClientSession
    stage: LoadedCluster
    serving: RunningServe
    elasticsearch: str  # the address at which the service reaches it

    async def in_flight(self) -> int:
        """Return the number of searches of the listings that Elasticsearch is running."""
        found = await self._get("/_tasks?actions=*search*&detailed=true")
        tasks = [task for node in found["nodes"].values() for task in node["tasks"].values()]
        return len([task for task in tasks if f"{self.stage.connection.prefix}listings" in task["description"]])

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
            queue=clients,
            **_admitting(clients, is_held=proxy is not None),
        ) as serving,
        aiohttp.ClientSession() as session,
    ):
        sight = _SearchMonitor(session, stage, serving, proxy.url if proxy else urls[0])
        paths = _paths(stage, clients)
        first = await sight.page(paths[0])
        connected, finished = sight.connections(), await sight.finished()
        await _leave(stage, serving, paths[1:], proxy)
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


def _admitting(clients: int, *, is_held: bool) -> dict[str, int]:
    """Return the settings of a service that takes the requests of all clients."""
    if not is_held:
        return {"concurrency": clients}
    return {"concurrency": _SLOTS_PER_LARGE_PAGE * clients, "deadline_seconds": _HELD_DEADLINE_SECONDS}


async def _leave(stage: LoadedCluster, serving: RunningServe, paths: Sequence[str], proxy: Proxy | None) -> None:
    """Let each client request its page and disconnect; those whose searches are held leave once all of them are."""
    if proxy is None:
        await asyncio.gather(*(_hang_up(serving.url, stage.key, path, at) for at, path in enumerate(paths)))
        return
    proxy.hold(f"/{stage.connection.prefix}listings/_search")
    may_leave = asyncio.Event()
    leaving = [
        asyncio.create_task(_hang_up(serving.url, stage.key, path, at, may_leave)) for at, path in enumerate(paths)
    ]
    await until(lambda: proxy.held == len(paths))
    may_leave.set()
    await asyncio.gather(*leaving)
    # What was not given up meanwhile is sent then, and runs to its end.
    await _given_up(proxy)
    await proxy.heal()


async def _given_up(proxy: Proxy) -> None:
    """Return when no search is held any more, or when one has been for too long."""
    with suppress(TimeoutError):
        await until(lambda: proxy.held == 0)


def _paths(stage: LoadedCluster, clients: int) -> list[str]:
    """Return a separate page for each client, and one more that comes first."""
    lines = (stage.source / "listings.ndjson").read_bytes().splitlines()
    companies = sorted({msgspec.json.decode(line)["platform_company_id"] for line in lines})
    return [
        f"/v1/listings?platform_company_id={companies[at % len(companies)]}&updated_since={at + 1}&page_size=1000"
        for at in range(clients + 1)
    ]


async def _hang_up(url: str, key: str, path: str, at: int, may_leave: asyncio.Event | None = None) -> None:
    await asyncio.sleep(at * _SPREAD_SECONDS)
    address = urlsplit(url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: service\r\nx-api-key: {key}\r\n\r\n".encode())
    await (asyncio.sleep(_PATIENCE_SECONDS) if may_leave is None else may_leave.wait())
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
