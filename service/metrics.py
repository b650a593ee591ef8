"""Prometheus metrics, served on a port of their own: what they tell is not for partners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import SummaryMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.layers import Ledger

UNMARKED_ANSWERS = Counter(
    "brokerage_unmarked_answers",
    "Answers of Elasticsearch that had to be parsed since a document lacked its marks: the indexer did not write it.",
)
SHARED_SEARCHES = Counter("brokerage_shared_searches", "Searches that were saved since the same one was under way.")

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


def metrics_app(ledger: Ledger) -> web.Application:
    """Return the application that serves `/metrics` of this process."""
    registry = CollectorRegistry()
    registry.register(LayerCollector(ledger))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY) + generate_latest(registry), headers={"Content-Type": _TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app
