"""Prometheus metrics, served on a port of their own: what they tell is not for partners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from service.problems import answer_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from service.admission import Lane
    from service.layers import Ledger
    from service.operation import Services

UNMARKED_ANSWERS = Counter(
    "brokerage_unmarked_answers",
    "Answers of Elasticsearch that had to be parsed since a document lacked its marks: the indexer did not write it.",
)
SHARED_SEARCHES = Counter("brokerage_shared_searches", "Searches that were saved since the same one was under way.")
RETRIES = Counter(
    "brokerage_retries",
    "Second attempts after the loss of a node: answered, failed, given up by the client, or refused by the budget.",
    ["outcome"],
)
ENGINE_FAILURES = Counter("brokerage_elasticsearch_failures", "Attempts that Elasticsearch failed, by kind.", ["kind"])
LIMIT_HITS = Counter("brokerage_limit_hits", "Requests that were counted against the rate of their key.")
LIMIT_REFUSALS = Counter(
    "brokerage_limit_refusals",
    "Requests that were answered 429: rate and concurrency of the key, or failures of the address to authenticate.",
    ["kind"],
)
LIMIT_FAIL_OPENS = Counter(
    "brokerage_limit_fail_opens", "Requests that were counted in this process alone since Redis was away."
)
KEY_USAGE_FAILURES = Counter("brokerage_key_usage_failures", "Failed attempts to record when keys were last used.")

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class LayerCollector:
    """The seconds of all requests by path template and layer, as a summary without quantiles."""

    def __init__(self, ledger: Ledger) -> None:
        """Read the ledger when Prometheus asks."""
        self._ledger = ledger

    def collect(self) -> Iterator[SummaryMetricFamily]:
        """Yield the one metric."""
        family = SummaryMetricFamily(
            "brokerage_layer_seconds", "Seconds spent in each layer of answered requests.", labels=("path", "layer")
        )
        for path, layer, spent in self._ledger.rows():
            family.add_metric((path, layer), count_value=spent.count, sum_value=spent.seconds)
        yield family


class LaneCollector:
    """How many requests run and wait, and how many were refused, by kind of request."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        """Read the lanes when Prometheus asks."""
        self._lanes = tuple(lanes)

    def collect(self) -> Iterator[Metric]:
        """Yield the three metrics."""
        running = GaugeMetricFamily("brokerage_requests_running", "Requests that hold a place.", labels=["kind"])
        waiting = GaugeMetricFamily("brokerage_requests_waiting", "Requests that wait for a place.", labels=["kind"])
        refused = CounterMetricFamily(
            "brokerage_requests_refused", "Requests that found neither a place nor room to wait.", labels=["kind"]
        )
        for lane in self._lanes:
            running.add_metric([lane.kind], lane.running)
            waiting.add_metric([lane.kind], lane.waiting)
            refused.add_metric([lane.kind], lane.refused)
        yield from (running, waiting, refused)


def metrics_app(services: Services) -> web.Application:
    """Return the application that serves `/metrics` of this process."""
    registry = CollectorRegistry()
    registry.register(LayerCollector(services.ledger))
    registry.register(LaneCollector(services.admission.lanes()))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY) + generate_latest(registry), headers={"Content-Type": _TYPE})

    app = web.Application(middlewares=[answer_problems])
    app.router.add_get("/metrics", metrics)
    return app
