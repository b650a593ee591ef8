"""Prometheus metrics, served on a private port because they are not for partners."""

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry, disable_created_metrics, generate_latest

from service.console.collectors import (
    AdmissionCollector,
    EngineCollector,
    ProgressCollector,
    TimingCollector,
    TrafficCollector,
    UnsentCollector,
)
from service.http.problems import problem_middleware
from service.search.cached_value import refresh_all
from service.services import Services

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_metrics_app(services: Services) -> web.Application:
    """Return the application that serves `/metrics` of this process."""
    # All counters are created at the start of the process, which `process_start_time_seconds` reports.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = _registry(services)

    async def metrics(_: web.Request) -> web.Response:
        await refresh_all(services.marks.values())
        body = generate_latest(REGISTRY) + generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": _CONTENT_TYPE})

    app = web.Application(middlewares=[problem_middleware()])
    app.router.add_get("/metrics", metrics)
    return app


def _registry(services: Services) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(TimingCollector(services.timings))
    registry.register(AdmissionCollector(services.admission.lanes()))
    registry.register(UnsentCollector(services.sends))
    registry.register(TrafficCollector(services.traffic))
    registry.register(EngineCollector(services.engine.attempts, services.pulses))
    registry.register(ProgressCollector(services.loop_lag, services.marks))
    return registry
