"""Metrics for Prometheus, and their last hour for the console."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, StandingTroubles
from cluster.http.nodes import NodeHealth
from mappings import RESOURCES
from mappings.resource import Resource
from service.health.checks import read_standing
from service.http.problems import problem_middleware
from service.http.requests import RequestAdapter
from service.limits.admission import ConcurrencyLimit
from service.search.cached_value import CacheAges, CachedValue, refresh_all
from service.services import Services
from service.subscriptions import Subscriptions
from service.telemetry.observation import Attempts, LoopLag, TimingTotals, TrafficTotals


class ServiceCollector:
    """The metrics of one process, collected at each request for them."""

    def __init__(self, services: Services, standing: CachedValue[dict[str, StandingTroubles]]) -> None:
        self._services = services
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        totals, limits, engine = self._services.totals, self._services.limits, self._services.engine
        yield from _timings(totals.timings)
        yield from _admissions(limits.admission.limits.values())
        text = "Bytes of responses that wait for clients to read them."
        yield GaugeMetricFamily("brokerage_unsent_bytes", text, value=limits.unread.unsent_bytes)
        yield from _traffic(totals.traffic)
        yield from _engine(engine.attempts, engine.nodes)
        yield from _progress(totals.loop_lag, self._services.marks)
        yield from _troubles(self._standing.current, self._services.connection)
        yield from _subscriptions(self._services.find(Subscriptions))


def _timings(timings: TimingTotals) -> Iterator[Metric]:
    """Yield request seconds by path template and layer, as a summary without quantiles."""
    family = SummaryMetricFamily(
        "brokerage_layer_seconds", "Seconds spent in each layer of requests.", labels=("path", "layer")
    )
    for path, layer, total in timings.rows():
        family.add_metric((path, layer), count_value=total.count, sum_value=total.seconds)
    yield family


def _admissions(limits: Iterable[ConcurrencyLimit]) -> Iterator[Metric]:
    slots = GaugeMetricFamily("brokerage_requests_places", "Concurrency limit.", labels=["kind"])
    running = GaugeMetricFamily("brokerage_requests_running", "Requests being processed.", labels=["kind"])
    waiting = GaugeMetricFamily("brokerage_requests_waiting", "Queued requests.", labels=["kind"])
    refused = CounterMetricFamily(
        "brokerage_requests_refused", "Requests refused because the queue was full or too slow.", labels=["kind"]
    )
    for limit in limits:
        slots.add_metric([limit.kind], limit.slots)
        running.add_metric([limit.kind], limit.running)
        waiting.add_metric([limit.kind], limit.waiting)
        refused.add_metric([limit.kind], limit.refused)
    yield from (slots, running, waiting, refused)


def _traffic(traffic: TrafficTotals) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "brokerage_requests",
        "Requests by path template, status and rate tier; 499: the client left before the response was sent.",
        labels=["route", "status", "tier"],
    )
    for (route, status, tier), count in traffic.requests.items():
        requests.add_metric([route, str(status), tier], count)
    seconds = HistogramMetricFamily(
        "brokerage_request_seconds",
        "Seconds until the response was ready to send, by path template and status class.",
        labels=["route", "status_class"],
    )
    for labels, histogram in traffic.seconds.items():
        seconds.add_metric(labels, histogram.buckets(), histogram.sum)
    yield from (requests, seconds)
    yield _by_route("brokerage_answer_rows", "Records sent.", traffic.rows)
    yield _by_route("brokerage_answer_bytes", "Bytes of bodies, after compression.", traffic.body_bytes)


def _by_route(name: str, text: str, totals: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["route"])
    for route, count in totals.items():
        family.add_metric([route], count)
    return family


def _engine(attempts: Attempts, nodes: Sequence[NodeHealth]) -> Iterator[Metric]:
    """Yield requests to Elasticsearch, and the state of its nodes, without names because addresses change."""
    seconds = HistogramMetricFamily(
        "brokerage_elasticsearch_request_seconds",
        "Seconds of requests to Elasticsearch, including the wait for a connection, by status class; none: no "
        "response.",
        labels=["status_class"],
    )
    for outcome, histogram in attempts.seconds.items():
        seconds.add_metric([outcome], histogram.buckets(), histogram.sum)
    running = sum(len(node.in_flight) for node in nodes)
    by_state = GaugeMetricFamily("brokerage_elasticsearch_nodes", "Nodes by state.", labels=["state"])
    for state, count in node_states(nodes).items():
        by_state.add_metric([state], count)
    yield from (seconds, by_state)
    yield GaugeMetricFamily("brokerage_elasticsearch_requests_running", "Requests in flight.", value=running)


def node_states(nodes: Iterable[NodeHealth]) -> dict[str, int]:
    """Return the number of Elasticsearch nodes by state (`well`, `failed`, `silent`), as seen by this process."""
    states = {"well": 0, "failed": 0, "silent": 0}
    for node in nodes:
        states["silent" if node.is_silent else "well" if node.is_healthy else "failed"] += 1
    return states


def _progress(loop_lag: LoopLag, marks: Mapping[Resource, CachedValue[Mark | None]]) -> Iterator[Metric]:
    """Yield the event loop lag, and the watermarks as last read. A resource that was never loaded has none."""
    lag = HistogramMetricFamily("brokerage_loop_lag_seconds", "Event loop lag, measured four times a second.")
    lag.add_metric([], loop_lag.seconds.buckets(), loop_lag.seconds.sum)
    clock = GaugeMetricFamily(
        "brokerage_index_mark_timestamp_seconds",
        "The watermark: everything changed up to this time is visible, in seconds since 1970.",
        labels=["resource"],
    )
    sequence = GaugeMetricFamily(
        "brokerage_index_mark_sequence", "Number of changes that the indexer has published.", labels=["resource"]
    )
    for resource, cached in marks.items():
        if (mark := cached.current) is not None:
            clock.add_metric([resource.alias], mark.clock / 1000)
            sequence.add_metric([resource.alias], mark.sequence)
    yield from (lag, clock, sequence)


def _troubles(standing: Mapping[str, StandingTroubles] | None, connection: ConnectionSettings) -> Iterator[Metric]:
    """Yield the numbers of records that are not served as their source says, as last read."""
    count = GaugeMetricFamily(
        "brokerage_index_troubles", "Records that are not served as their source says.", labels=["resource"]
    )
    since = GaugeMetricFamily(
        "brokerage_index_trouble_oldest_timestamp_seconds",
        "When the oldest of them could not be read for the first time, in seconds since 1970.",
        labels=["resource"],
    )
    if standing is not None:
        for resource in RESOURCES:
            found = standing.get(connection.alias(resource), StandingTroubles())
            count.add_metric([resource.alias], found.count)
            if found.count:
                since.add_metric([resource.alias], found.since / 1000)
    yield from (count, since)


def _subscriptions(subscriptions: Subscriptions | None) -> Iterator[Metric]:
    """Yield how far subscriptions are behind, as last read; nothing of those that are paused."""
    behind = GaugeMetricFamily(
        "brokerage_subscription_behind_seconds",
        "For how long changes have waited to be accepted by a subscription.",
        labels=["subscription"],
    )
    heartbeat = GaugeMetricFamily(
        "brokerage_deliver_heartbeat_timestamp_seconds",
        "When a process of `brokerage deliver` last gave a sign, in seconds since 1970.",
    )
    if subscriptions is not None and subscriptions.current is not None:
        for summary in subscriptions.current.summaries:
            if summary.behind is not None:
                behind.add_metric([summary.name], summary.behind)
        if subscriptions.current.summaries and subscriptions.current.heartbeat:
            heartbeat.add_metric([], subscriptions.current.heartbeat)
    yield from (behind, heartbeat)


_TROUBLES_AGES = CacheAges(fresh_seconds=10.0, stale_seconds=30.0)
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_metrics_app(services: Services) -> web.Application:
    # All counters are created at the start of the process, which `process_start_time_seconds` reports.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    standing = CachedValue(partial(read_standing, services.engine, services.connection), _TROUBLES_AGES)
    registry = CollectorRegistry()
    registry.register(ServiceCollector(services, standing))

    async def metrics(_: web.Request) -> web.Response:
        subscriptions = services.find(Subscriptions)
        await refresh_all([*services.marks.values(), standing, *([] if subscriptions is None else [subscriptions])])
        body = generate_latest(REGISTRY) + generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": _CONTENT_TYPE})

    app = web.Application(middlewares=[problem_middleware((), RequestAdapter())])
    app.router.add_get("/metrics", metrics)
    return app
