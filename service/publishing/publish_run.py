"""A publication run by itself, with a client of its own: what `brokerage index publish` does."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

from cluster.connection import ConnectionSettings, connect
from cluster.http.node_pool import LeastRequestsPool
from cluster.http.reading_node import ReadingNode
from service.app import build_services
from service.exports.manifest import Manifest
from service.health.monitor import HealthMonitor
from service.publishing.publish_target import PublishTarget
from service.publishing.publisher import PublishDisplay, Publisher
from service.services import Services
from service.settings import ServiceSettings
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation

_CONNECTIONS = 8
# Of one search: no client waits for a response meanwhile.
_DEADLINE_SECONDS = 60.0


async def publish(
    connection: ConnectionSettings,
    settings: ServiceSettings,
    target: PublishTarget,
    companies: Collection[str],
    display: PublishDisplay,
) -> list[Manifest]:
    """Publish companies, all if none is given, to a target; return the manifests. Raises PublishError."""
    settings = replace(settings, deadline_seconds=_DEADLINE_SECONDS)
    async with target.locked(display.note), _services(connection, settings) as services:
        return await Publisher(services, target, settings.exports_kept, display).run(companies)


@asynccontextmanager
async def _services(connection: ConnectionSettings, settings: ServiceSettings) -> AsyncIterator[Services]:
    """Open the services of a worker, and check the indices once: what is unusable is not published."""
    CURRENT_OBSERVATION.set(RequestObservation())
    client = connect(
        connection,
        connections=_CONNECTIONS,
        timeout=settings.deadline_seconds,
        meta_header=False,
        node_class=ReadingNode,
        node_pool_class=LeastRequestsPool,
    )
    async with client:
        services = build_services(client, settings, connection)
        marks = {connection.alias(resource): mark for resource, mark in services.marks.items()}
        monitor = HealthMonitor(services.engine, connection, settings, _read_nothing, marks)
        await monitor.check_now()
        try:
            yield services
        finally:
            await services.news.close()


async def _read_nothing() -> None:
    """Read nothing besides the checks: no request follows."""
