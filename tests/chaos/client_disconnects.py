"""Clients that request large pages and disconnect: no search or connection of theirs may remain."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from elasticsearch import AsyncElasticsearch

from cluster.connection import connect
from tests.network.proxy import Proxy
from tests.simulation.nodes import search_tasks
from tests.simulation.results import ScenarioResult
from tests.simulation.services import LoadedCluster, RunningServe, load_cluster
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


async def hang_ups(
    urls: Sequence[str], clients: int = 500, listings: int = 4_000, proxy: Proxy | None = None
) -> ScenarioResult:
    """Disconnect clients, each while its own large page is being produced.

    A proxy in front of Elasticsearch holds their searches until they have left: all must be cancelled then. Without
    one, how many are cancelled depends on how long they take.
    """
    # All are admitted: otherwise most would be refused immediately, and nothing would be abandoned.
    settings = {"concurrency": clients, "elasticsearch_connections": _CONNECTIONS, "queue": clients}
    if proxy:
        settings |= {"concurrency": _SLOTS_PER_LARGE_PAGE * clients, "deadline_seconds": _HELD_DEADLINE_SECONDS}
    async with (
        load_cluster(urls, listings) as stage,
        stage.service(urls=[proxy.url] if proxy else (), **settings) as serving,
        connect(stage.connection, connections=2, timeout=60) as client,
    ):
        elasticsearch = urlsplit(proxy.url if proxy else urls[0]).port or 0  # as the service reaches it
        index = f"{stage.connection.prefix}listings"
        paths = _paths(stage, clients)
        first = await _page(stage, serving, paths[0])
        connected, finished = _connections(serving.pid, elasticsearch), await _finished(client, index)
        await _leave(stage, serving, paths[1:], proxy)
        await asyncio.sleep(_LIMIT_SECONDS)
        left = len(await search_tasks(client, index))
        cancelled = clients - (await _finished(client, index) - finished)
        connected_after = _connections(serving.pid, elasticsearch)
        statuses = first, await _page(stage, serving, paths[0])
        log = serving.log.read_text(encoding="utf-8")
        holds = {
            f"{left} searches were left in Elasticsearch after {_LIMIT_SECONDS:.0f} s.": not left,
            "Searches ran to their end although their clients had left.": cancelled >= (clients if proxy else 1),
            "The log has an ERROR or a traceback.": "ERROR" not in log and "Traceback" not in log,
            f"Pages before and after were answered {statuses}.": statuses == (200, 200),
            "Connections to Elasticsearch stayed open.": _connections(serving.pid, elasticsearch) <= _CONNECTIONS,
        }
    return ScenarioResult(
        fault=f"{clients} clients disconnect after {_PATIENCE_SECONDS * 1000:.0f} ms",
        requests=clients + 2,
        wrong=0,
        failed=2 - statuses.count(200),
        outage_seconds=0.0,
        figures={
            f"searches running {_LIMIT_SECONDS:.0f} s after the last disconnect": str(left),
            "searches cancelled": str(cancelled),
            "connections to Elasticsearch before and after": f"{connected} and {connected_after}",
        },
        violations=[violation for violation, does_hold in holds.items() if not does_hold],
    )


async def _finished(client: AsyncElasticsearch, index: str) -> int:
    found = await client.indices.stats(index=index, metric="search")
    return int(found["_all"]["total"]["search"]["query_total"])


def _connections(pid: int, port: int) -> int:
    process = Path("/proc") / str(pid)
    links = set[str]()
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            links.add(str(descriptor.readlink()))
    rows = [line.split() for line in (process / "net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    remote = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}") and row[3] == _ESTABLISHED}
    return len(remote & links)


async def _page(stage: LoadedCluster, serving: RunningServe, path: str) -> int:
    headers = {"x-api-key": stage.key}
    async with aiohttp.request("GET", serving.url + path, headers=headers) as response:
        await response.read()
        return response.status


async def _leave(stage: LoadedCluster, serving: RunningServe, paths: Sequence[str], proxy: Proxy | None) -> None:
    """Let each client request its page and disconnect; those whose searches are held leave once all of them are."""
    may_leave = asyncio.Event() if proxy else None
    if proxy:
        proxy.hold(f"/{stage.connection.prefix}listings/_search")
    leaving = [
        asyncio.create_task(_hang_up(serving.url, stage.key, path, at, may_leave)) for at, path in enumerate(paths)
    ]
    if proxy and may_leave:
        await until(lambda: proxy.held == len(paths))
        may_leave.set()
    await asyncio.gather(*leaving)
    if proxy:
        # What was not given up meanwhile is sent then, and runs to its end.
        with suppress(TimeoutError):
            await until(lambda: proxy.held == 0)
        await proxy.heal()


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
