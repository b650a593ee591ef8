"""What a run measures: its node, the data on it, and the programs in front of it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from elasticsearch import AsyncElasticsearch

from bench import programs
from bench.client import Pool, get
from bench.measure import Progress, Size
from bench.peers.data import Feed
from bench.peers.running import Peers, peers
from bench.questions import (
    COMPANY,
    ENGINE,
    GROUPS,
    QUESTIONS,
    RAW,
    RELAY,
    ROOT,
    SERVICE,
    TWO_WORKERS,
    Heard,
    Templates,
)
from bench.walks import Company, ServiceWay
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from embedded.node_options import free_ports
from indexer import IndexerContext, IndexerSettings, RebuildRequest, ResourceReport, open_source, reindex
from mappings import COMPANY as COMPANIES
from mappings import LISTING
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

_SHOWN = 1000
_SOLD = 100
_PATIENT_SECONDS = 24 * 3600.0
_DELETED_TOGETHER = 20
_MOST_LOADED = 200_000
_HOP = {"content-length", "transfer-encoding", "connection", "host"}  # headers of one connection


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run. `url` names a node that is there; without it one is started, on `data` where that is given."""

    listings: int
    size: Size
    docs: Path
    page: int = 200
    large_page: int = 1000
    url: str | None = None
    data: Path | None = None
    heap_mb: int = 4096
    prefix: str = "bench-"
    only: frozenset[str] = field(default_factory=frozenset)

    @property
    def commands(self) -> int:
        """How many listings the commands of the indexer are measured with: what one takes does not depend on it."""
        return min(self.listings, _MOST_LOADED)

    @property
    def results(self) -> Path:
        """The file of all measurements."""
        return self.docs / "performance" / "results.json"


class Node(NamedTuple):
    """An Elasticsearch node. The process and the heap of an existing one are not known."""

    url: str
    pid: int | None = None
    heap_mb: int | None = None


class Keys(NamedTuple):
    """API keys: for everything, and for the largest company alone."""

    everything: str
    company: str


@contextmanager
def node(options: Options) -> Iterator[Node]:
    """Yield the node; stop it afterwards if it was started here, or else delete the indices of the run."""
    if options.url is None:
        chosen = NodeOptions(data=options.data, ephemeral=options.data is None, heap_mb=options.heap_mb)
        with EmbeddedCluster(chosen) as cluster:
            yield Node(cluster.url, cluster.processes[0].pid, options.heap_mb)
        return
    try:
        yield Node(options.url)
    finally:
        asyncio.run(unload(ConnectionSettings(url=(options.url,), prefix=options.prefix)))


async def load(connection: ConnectionSettings, listings: int, progress: Progress) -> Keys:
    """Load missing data, and return new API keys."""
    async with connect(connection, connections=8, timeout=_PATIENT_SECONDS) as client:
        loaded = await client.count(index=connection.alias(LISTING), ignore_unavailable=True)
        if loaded["count"] != listings:
            await _generate(client, connection, listings, progress)
        # What an earlier run changed lies in segments of its own.
        await client.indices.forcemerge(index=connection.alias(LISTING), max_num_segments=1)
        await client.indices.refresh(index=connection.alias(LISTING))
        return Keys(await new_key(client, connection), await new_key(client, connection, COMPANY))


async def new_key(client: AsyncElasticsearch, connection: ConnectionSettings, *companies: str) -> str:
    """Return a new API key that reads these companies, or else all, without a limit of its rate."""
    grant = KeyGrant("bench", companies=companies, all_companies=not companies, rate=None)
    return (await KeyStore(client, connection.keys_index, connection.usage_index).create(grant)).reveal()


async def unload(connection: ConnectionSettings) -> None:
    """Delete all indices with the run's prefix."""
    async with connect(connection, connections=1, timeout=60) as client:
        names = list(await client.indices.get(index=f"{connection.prefix}*", expand_wildcards="all"))
        for at in range(0, len(names), _DELETED_TOGETHER):
            await client.indices.delete(index=names[at : at + _DELETED_TOGETHER])


async def _generate(
    client: AsyncElasticsearch, connection: ConnectionSettings, listings: int, progress: Progress
) -> None:
    def show(report: ResourceReport) -> None:
        progress.report(f"loading {report.resource}: {report.read:,} read, {report.stage}", seldom=True)

    with tempfile.TemporaryDirectory(prefix="bench-source-") as name:
        folder = Path(name)
        write_source(
            folder / "source",
            listings,
            on_progress=lambda resource, done: progress.report(f"writing {resource}: {done:,}", seldom=True),
        )
        # Property alone reads sold listings, and loading them all would take half as long again.
        sold = folder / "source" / "sold_listings.ndjson"
        with sold.open("rb") as file:
            few = list(islice(file, _SOLD))
        sold.write_bytes(b"".join(few))
        settings = replace(IndexerSettings(), dead_letter_folder=str(folder / "dead-letters"), kept_generations=1)
        context = IndexerContext(client, connection, settings)
        with open_source(str(folder / "source")) as source:
            summary = await reindex(context, source, RebuildRequest(force=True, on_progress=show))
    if summary.exit_code:
        raise RuntimeError("The sample data was not loaded: " + "; ".join(str(each) for each in summary.resources))


async def identifiers(connection: ConnectionSettings) -> list[str]:
    """Return the identifiers of some listings of the largest company, for shows."""
    query = {"bool": {"filter": [{"term": {"company": COMPANY}}]}}
    async with connect(connection, connections=1, timeout=60) as client:
        answer = await client.search(index=connection.alias(LISTING), query=query, size=_SHOWN, source=False)
        return [hit["_id"] for hit in answer["hits"]["hits"]]


async def companies(connection: ConnectionSettings) -> list[Company]:
    async with connect(connection, connections=1, timeout=60) as client:
        answer = await client.search(index=connection.alias(COMPANIES), size=1000, source=False)
        keys = [hit["_id"] for hit in answer["hits"]["hits"]]
        found = [await _company(client, connection.alias(LISTING), key) for key in keys]
    return sorted((each for each in found if each.listings), key=lambda each: -each.listings)


async def _company(client: AsyncElasticsearch, index: str, key: str) -> Company:
    query = {"bool": {"filter": [{"term": {"company": key}}, {"term": {"deleted": False}}]}}
    asked: dict[str, Any] = {"query": query, "sort": [{"id": "desc"}], "size": 1, "track_total_hits": True}
    answer = await client.search(index=index, source=False, **asked)
    hits = answer["hits"]["hits"]
    return Company(key, answer["hits"]["total"]["value"], hits[0]["sort"][0] if hits else "")


@dataclass
class Tap:
    """Listens between the service and Elasticsearch: all that was asked since it was opened."""

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


@dataclass(frozen=True)
class Stage:
    """Templates of all requests, and the processes whose processor time is measured, as far as they are known."""

    templates: Templates
    processes: dict[str, int]


@asynccontextmanager
async def staged(
    options: Options, node: Node, keys: Keys, walked: Sequence[Company], progress: Progress
) -> AsyncIterator[Stage]:
    """Start the service, with one worker and with two, and the peers if they are to be measured."""
    connection = ConnectionSettings(url=(node.url,), prefix=options.prefix)
    listings = await identifiers(connection)
    bare = Templates({RAW: node.url}, {}, keys.company, listings, options.page, options.large_page)
    async with AsyncExitStack() as stack:
        running = {
            SERVICE: await stack.enter_async_context(programs.service(node.url, options.prefix)),
            TWO_WORKERS: await stack.enter_async_context(programs.service(node.url, options.prefix, workers=2)),
        }
        async with tapped(node.url, free_ports(1)[0]) as tap, programs.service(tap.url, options.prefix) as listener:
            await listener.ready()
            heard = await _overhear(bare, tap, listener.url, options.prefix)
        for program in running.values():
            await program.ready()
        found = Peers()
        if not options.only or "peers" in options.only:
            way = ServiceWay(running[SERVICE].url, f"{ROOT}/listings", keys.everything, options.large_page)
            folder = options.data and options.data.with_name(f"{options.data.name}-postgres")
            feed = Feed(way, walked, progress)
            found = await stack.enter_async_context(peers(connection, feed, keys.company, options.page, folder))
        templates = replace(
            bare,
            servers={RAW: node.url} | {name: program.url for name, program in running.items()} | found.servers,
            heard={RAW: heard, RELAY: heard} | found.heard,
            missing=found.missing,
        )
        processes = {name: program.pid for name, program in running.items()} | found.processes
        yield Stage(templates, processes | ({ENGINE: node.pid} if node.pid else {}))


async def _overhear(templates: Templates, tap: Tap, service: str, prefix: str) -> dict[str, Heard]:
    """Send each question once to the service behind the tap; return the searches that it sent."""
    found: dict[str, Heard] = {}
    pool = Pool()
    try:
        [connection] = await pool.take(service, 1)
        for name in sorted({arm.question for group in GROUPS.values() for arm in group if arm.answers == RAW}):
            # The keys and companies that the service reads at first are asked of other indices.
            since = len(tap.heard)
            await connection.fetch(get(service, templates.target(name), {"x-api-key": templates.key}))
            asked = tap.of(prefix + QUESTIONS[name].resource, since)
            if len(asked) == 1:
                found[name] = asked[0]
    finally:
        pool.close()
    return found
