"""What the console shows of each resource and each worker."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, web
from yarl import URL

from cluster.connection import ConnectionSettings
from cluster.control_index import StandingTroubles
from cluster.index_state import FRAGMENTATION_FILTER, FRAGMENTATION_METRICS, IndexFragmentation, read_fragmentation
from mappings import RESOURCES
from mappings.resource import Resource
from service.console.consumers import ConsumerRegistry, FeedConsumer, KeyUse, merge_consumers, merge_key_uses
from service.console.history import (
    ENGINE_SUBJECT,
    LOOP_SUBJECT,
    ROWS_KIND,
    SECONDS_KIND,
    STATUS_KIND,
    STEP_COUNT,
    STEP_SECONDS,
    Counts,
    HistoryStep,
    MetricHistory,
    merge_steps,
)
from service.errors import ApiError
from service.health.checks import StatusReader, get_within_timeout, read_inventory, read_standing
from service.search.cached_value import CacheAges, CachedValue, refresh_all
from service.search.engine import SearchEngine
from service.search.query import term
from service.search.responses import total_hits
from service.services import Services
from service.settings import ServiceSettings
from service.telemetry.metrics import node_states
from service.telemetry.observation import quantile

_MINUTE_SECONDS = 60
# Without probes and documentation pages.
_API_PREFIX = "/v1/"


class TrafficFigures(msgspec.Struct):
    """Requests, rates per second and quantiles in seconds, which are None without requests."""

    name: str
    requests: int
    failed: int  # 5xx, or no response from Elasticsearch
    refused: int  # 429
    per_second: float
    rows_per_second: float
    median: float | None
    slowest: float | None  # the 99th percentile


class ChartSeries(msgspec.Struct):
    """One value for each completed step, oldest first."""

    step_seconds: int
    requests: list[float]
    failed: list[float]
    rows: list[float]
    slowest: list[float | None]


class Figures(msgspec.Struct):
    minute: TrafficFigures
    routes: list[TrafficFigures]  # of ten minutes
    engine: TrafficFigures  # of ten minutes
    loop_late: float | None  # seconds, of ten minutes
    charts: ChartSeries


def compute_figures(steps: Iterable[HistoryStep], now: float) -> Figures:
    """Return the figures at the time `now`, in seconds since 1970."""
    by_number, last = merge_steps(steps), int(now) // STEP_SECONDS
    parts = [by_number.get(number, Counter()) for number in range(last - STEP_COUNT + 1, last + 1)]
    minute, total = _sum(parts[-_MINUTE_SECONDS // STEP_SECONDS :]), _sum(parts)
    api = {subject for _, subject, _ in total if subject.startswith(_API_PREFIX)}
    return Figures(
        minute=_traffic("", minute, api, _MINUTE_SECONDS),
        routes=[_traffic(route, total, {route}, STEP_COUNT * STEP_SECONDS) for route in sorted(api)],
        engine=_traffic(ENGINE_SUBJECT, total, {ENGINE_SUBJECT}, STEP_COUNT * STEP_SECONDS),
        loop_late=quantile(_durations(total, {LOOP_SUBJECT}), 0.99),
        charts=_charts([_traffic("", part, api, STEP_SECONDS) for part in parts[:-1]]),
    )


def _sum(parts: Sequence[Counts]) -> Counts:
    counts: Counts = Counter()
    for part in parts:
        counts.update(part)
    return counts


def _traffic(name: str, counts: Counts, subjects: set[str], seconds: float) -> TrafficFigures:
    by_status: Counter[str] = Counter()
    rows = 0
    for (kind, subject, label), count in counts.items():
        if subject in subjects:
            by_status[label] += count if kind == STATUS_KIND else 0
            rows += count if kind == ROWS_KIND else 0
    durations = _durations(counts, subjects)
    return TrafficFigures(
        name=name,
        requests=by_status.total(),
        failed=sum(count for status, count in by_status.items() if status.startswith(("5", "none"))),
        refused=by_status["429"],
        per_second=by_status.total() / seconds,
        rows_per_second=rows / seconds,
        median=quantile(durations, 0.5),
        slowest=quantile(durations, 0.99),
    )


def _durations(counts: Counts, subjects: set[str]) -> Counter[float]:
    """Return the number of requests by upper bound in seconds."""
    durations: Counter[float] = Counter()
    for (kind, subject, bound), count in counts.items():
        if kind == SECONDS_KIND and subject in subjects:
            durations[float(bound)] += count
    return durations


def _charts(parts: Sequence[TrafficFigures]) -> ChartSeries:
    return ChartSeries(
        step_seconds=STEP_SECONDS,
        requests=[part.per_second for part in parts],
        failed=[part.failed / STEP_SECONDS for part in parts],
        rows=[part.rows_per_second for part in parts],
        slowest=[part.slowest for part in parts],
    )


async def read_live_fragmentation(
    engine: StatusReader, connection: ConnectionSettings
) -> Mapping[str, IndexFragmentation]:
    """Return the fragmentation of each index behind the aliases; nothing without privilege or Elasticsearch."""
    aliases = ",".join(map(connection.alias, RESOURCES))
    options = f"level=shards&ignore_unavailable=true&filter_path={FRAGMENTATION_FILTER}"
    try:
        status, body = await get_within_timeout(engine, f"/{aliases}/_stats/{FRAGMENTATION_METRICS}?{options}")
    except ApiError:
        return {}
    indices = body.get("indices", {}) if status == 200 else {}
    return {index: read_fragmentation(facts["shards"]) for index, facts in indices.items()}


# A refresh is six counts, two small documents per resource and one index check, however many consoles are open.
_AGES = CacheAges(fresh_seconds=5.0, stale_seconds=10.0)
# Statistics of all shards, which change with updates and merges.
_FRAGMENTATION_AGES = CacheAges(fresh_seconds=30.0, stale_seconds=60.0)
_COUNT = {"size": 0, "track_total_hits": True, "query": term("deleted", value=False)}


class LastRun(msgspec.Struct):
    """The last build or update.

    `at` is in seconds since 1970. `lag` is the age in seconds of its latest change when it was published, None without
    changes. `dead` is the number of bad records.
    """

    verb: str
    at: float
    lag: float | None
    dead: int


class UnfinishedBuild(msgspec.Struct):
    """A build that is running, was interrupted, or was refused with the reason `refusal`."""

    candidate: str
    phase: str
    line: int = 0
    refusal: str | None = None


class IndexerRuns(msgspec.Struct):
    last: LastRun | None = None
    build: UnfinishedBuild | None = None


class ResourceSummary(msgspec.Struct):
    """The live data of one resource.

    `mark` is the watermark in seconds since 1970. None: it does not exist, or a privilege to read it is missing.
    """

    resource: str
    alias: str
    records: int | None = None
    generations: list[str] = []
    replaced: str | None = None
    mark: float | None = None
    sequence: int | None = None
    last: LastRun | None = None
    build: UnfinishedBuild | None = None
    fragmentation: IndexFragmentation | None = None
    troubles: StandingTroubles = StandingTroubles()


class ResourceSummaries:
    """Reads the summaries of all resources, with a cache of a few seconds."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._indices = CachedValue(partial(read_inventory, services.engine, services.connection), _AGES)
        self._fragmentation = CachedValue(
            partial(read_live_fragmentation, services.engine, services.connection), _FRAGMENTATION_AGES
        )
        self._standing = CachedValue(partial(read_standing, services.engine, services.connection), _AGES)
        self._counts = {resource: CachedValue(partial(self._count, resource), _AGES) for resource in RESOURCES}
        self._runs = {resource: CachedValue(partial(self._read_runs, resource), _AGES) for resource in RESOURCES}

    async def read(self) -> list[ResourceSummary]:
        """Return all summaries, as last read if Elasticsearch does not respond within a second."""
        marks, counts, runs = self._services.marks.values(), self._counts.values(), self._runs.values()
        await refresh_all([*marks, self._indices, self._fragmentation, self._standing, *counts, *runs])
        return [self._summary(resource) for resource in RESOURCES]

    async def _count(self, resource: Resource) -> int | None:
        alias = self._services.connection.alias(resource)
        try:
            return total_hits(await self._services.engine.search_unshared(alias, _COUNT))
        except ApiError:
            # The findings of the health checks include the reason.
            return None

    async def _read_runs(self, resource: Resource) -> IndexerRuns:
        connection = self._services.connection
        try:
            return await read_runs(self._services.engine, connection.control_index, connection.alias(resource))
        except ApiError:
            return IndexerRuns()

    def _summary(self, resource: Resource) -> ResourceSummary:
        alias, inventory = self._services.connection.alias(resource), self._indices.current
        live = (inventory.by_name[alias] if inventory is not None else None) or {}
        replaced = [facts["mappings"].get("_meta", {}).get("replaces") for facts in live.values()]
        mark, runs = self._services.indices[resource].mark.current, self._runs[resource].current or IndexerRuns()
        return ResourceSummary(
            resource=resource.alias,
            alias=alias,
            records=self._counts[resource].current,
            generations=sorted(live),
            replaced=next(filter(None, replaced), None),
            mark=None if mark is None else mark.clock / 1000,
            sequence=None if mark is None else mark.sequence,
            last=runs.last,
            # The document of a build is deleted only after the alias swap.
            build=None if runs.build is None or runs.build.candidate in live else runs.build,
            fragmentation=next(filter(None, map((self._fragmentation.current or {}).get, live)), None),
            troubles=(self._standing.current or {}).get(alias, StandingTroubles()),
        )


async def read_runs(engine: SearchEngine, control_index: str, alias: str) -> IndexerRuns:
    """Read what the indexer has stored about runs of a resource; raise ApiError."""
    documents = (engine.get_document(control_index, f"{kind}-{alias}") for kind in ("last", "build"))
    last, build = await asyncio.gather(*documents)
    return IndexerRuns(
        last=None if last is None else _last_run(last),
        build=None if build is None else msgspec.convert(build["progress"], UnfinishedBuild),
    )


def _last_run(entry: dict[str, Any]) -> LastRun:
    # Times are in milliseconds; `newest` is 0 if there was no record.
    lag = max(0, entry["at"] - entry["newest"]) / 1000 if entry["newest"] else None
    return LastRun(verb=entry["verb"], at=entry["at"] / 1000, lag=lag, dead=entry["dead"])


Item = TypeVar("Item")


class LimitSnapshot(msgspec.Struct):
    """The concurrency limit of one kind of request, `places`, and what runs and waits within it."""

    kind: str
    places: int
    running: int
    waiting: int


class WorkerSnapshot(msgspec.Struct):
    """The body of `/console/worker.json`; contains public ids of keys, never keys."""

    steps: list[HistoryStep]
    limits: list[LimitSnapshot]
    nodes: dict[str, int]  # number of Elasticsearch nodes by state
    running: int  # requests to Elasticsearch in flight
    uses: list[KeyUse]
    feeds: list[FeedConsumer]


def take_snapshot(services: Services, history: MetricHistory) -> WorkerSnapshot:
    limits, consumers = services.limits.admission.limits.values(), services.of(ConsumerRegistry)
    return WorkerSnapshot(
        steps=history.steps(),
        limits=[LimitSnapshot(limit.kind, limit.slots, limit.running, limit.waiting) for limit in limits],
        nodes=node_states(services.engine.nodes),
        running=sum(len(node.in_flight) for node in services.engine.nodes),
        uses=[*consumers.uses.values()],
        feeds=[*consumers.feeds.values()],
    )


def merge_snapshots(workers: Sequence[WorkerSnapshot]) -> WorkerSnapshot:
    """Merge the snapshots; the node states are those of the worker that sees the fewest healthy nodes."""
    limits = _grouped((limit for worker in workers for limit in worker.limits), lambda limit: limit.kind)
    uses = _grouped((use for worker in workers for use in worker.uses), lambda use: use.key_id)
    feeds = _grouped(
        (feed for worker in workers for feed in worker.feeds),
        lambda feed: (feed.key_id, feed.method, feed.resource, feed.company),
    )
    return WorkerSnapshot(
        steps=[step for worker in workers for step in worker.steps],
        limits=[_sample_sum(group) for group in limits],
        nodes=min((worker.nodes for worker in workers), key=lambda states: states["well"]),
        running=sum(worker.running for worker in workers),
        uses=[merge_key_uses(group) for group in uses],
        feeds=[merge_consumers(group) for group in feeds],
    )


def _grouped(items: Iterable[Item], key: Callable[[Item], object]) -> list[list[Item]]:
    groups: dict[object, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return [*groups.values()]


def _sample_sum(limits: Sequence[LimitSnapshot]) -> LimitSnapshot:
    return LimitSnapshot(
        kind=limits[0].kind,
        places=sum(limit.places for limit in limits),
        running=sum(limit.running for limit in limits),
        waiting=sum(limit.waiting for limit in limits),
    )


WORKER_SNAPSHOT_PATH = "/console/worker.json"
# A worker that takes longer is shown as not responding; the page polls again two seconds later.
_TIMEOUT_SECONDS = 1.0
# A snapshot with the history of all consumers has less than a tenth.
_MAX_BYTES = 16 * 1024**2


class SiblingWorkers:
    """Reads their snapshots; addresses come from the settings and the local socket, never from a request."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._ports = range(settings.metrics_port, settings.metrics_port + settings.workers)
        self._session: ClientSession | None = None

    async def lifespan(self, _: web.Application) -> AsyncIterator[None]:
        # Without proxies from the environment, which are for other hosts.
        async with ClientSession(timeout=ClientTimeout(total=_TIMEOUT_SECONDS), trust_env=False) as self._session:
            yield

    async def fetch_all(self, host: str, port: int) -> dict[int, WorkerSnapshot | None]:
        """Return the snapshots of the workers other than the one on `port`, by port; None without a response."""
        ports = [sibling for sibling in self._ports if sibling != port] if port in self._ports else []
        snapshots = await asyncio.gather(*(self._fetch(host, sibling) for sibling in ports))
        return dict(zip(ports, snapshots, strict=True))

    async def _fetch(self, host: str, port: int) -> WorkerSnapshot | None:
        if self._session is None:
            return None
        try:
            url = URL.build(scheme="http", host=host, port=port, path=WORKER_SNAPSHOT_PATH)
            async with self._session.get(url, allow_redirects=False) as response:
                return msgspec.json.decode(await _read_bounded(response), type=WorkerSnapshot)
        except (ClientError, TimeoutError, OSError, RecursionError, ValueError):
            return None


async def _read_bounded(response: ClientResponse) -> bytes:
    """Return the body; raise ValueError if it is too long for a worker of ours, so another program has the port."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise ValueError("The response is too long.")
    return bytes(body)
