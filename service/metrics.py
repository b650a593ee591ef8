"""Prometheus metrics, served on a port of their own: what they tell is not for partners."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, Counter, disable_created_metrics, generate_latest

from service.problems import answer_problems
from service.telemetry.collectors import (
    EngineCollector,
    LaneCollector,
    LayerCollector,
    ProgressCollector,
    TrafficCollector,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.freshness import Kept
    from service.services import Services

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
# What the private port tells is read anew for each look at it, which must be answered while Elasticsearch is not.
_RENEWAL_SECONDS = 1.0


def metrics_app(services: Services) -> web.Application:
    """Return the application that serves `/metrics` of this process."""
    # When each counter was made is when the process began, which `process_start_time_seconds` tells.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = _registry(services)

    async def metrics(_: web.Request) -> web.Response:
        await renewed(services.marks.values())
        return web.Response(body=generate_latest(REGISTRY) + generate_latest(registry), headers={"Content-Type": _TYPE})

    app = web.Application(middlewares=[answer_problems])
    app.router.add_get("/metrics", metrics)
    return app


async def renewed(kept: Iterable[Kept[Any]]) -> None:
    """Read anew what is no longer fresh, within a second; it stays as it is while Elasticsearch is away."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_RENEWAL_SECONDS):
            await asyncio.gather(*(each.get() for each in kept), return_exceptions=True)


def _registry(services: Services) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(LayerCollector(services.ledger))
    registry.register(LaneCollector(services.admission.lanes()))
    registry.register(TrafficCollector(services.traffic))
    registry.register(EngineCollector(services.engine.attempts, services.pulses))
    registry.register(ProgressCollector(services.loop_lag, services.marks))
    return registry
