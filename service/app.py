"""Build the application from its settings. Nothing else reads settings or opens connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from elastic_transport import AsyncTransport
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from cluster.http.node_pool import LeastRequestsPool
from cluster.http.reading_node import ReadingNode
from mappings import COMPANY, RESOURCES
from service.audit.reads import Audit, AuditLog, WrittenAudit
from service.background import keep_running
from service.compatible import COMPATIBLE_ROOT, FORM_PATHS
from service.errors import EngineUnavailable
from service.exports.operations import EXPORT_OPERATIONS
from service.exports.stores import open_publications
from service.feed.change_notifier import ChangeNotifier
from service.feed.operations import FEED_OPERATIONS
from service.feed.token import TokenVault, read_token_sealer
from service.health.checks import get_within_timeout
from service.health.monitor import DRAINING, HEALTH_MONITOR, HealthMonitor, livez, readyz, startupz
from service.http.cors import cors_middleware
from service.http.problems import problem_middleware
from service.http.requests import BoundedRouter, read_networks, slash_middleware
from service.http.send_monitor import SEND_MONITOR, SendLimits, SendMonitor
from service.keys.revocation_list import RevocationList
from service.keys.ring import KeyRing, KeyUsage
from service.limits.addresses import REFUSAL_PACER, AuthFailureLimiter, RefusalPacer
from service.limits.admission import AdmissionControl
from service.limits.rates import create_limiter
from service.openapi.document import create_document_handler
from service.operation import Operation
from service.reso.entity_events.event_ledger import EventLedgerReader
from service.reso.operations import BATCH_PATH, RESO_OPERATIONS, refuse_batch
from service.reso.protocol.error_format import RESO_ERRORS
from service.resources import OPERATIONS
from service.search.cached_value import CacheAges, CachedValue
from service.search.engine import SearchEngine
from service.search.shared_state import CompanyDirectoryReader, read_mark
from service.services import Services
from service.settings import ServiceSettings
from service.site.discovery import create_index_handler, discovery_handlers
from service.site.pages import SITE_PATHS, SiteHandler
from service.telemetry.observation import CURRENT_OBSERVATION, StartSpan
from service.telemetry.requests import REQUEST_OBSERVER, AccessLog, EmitLine, RequestObserver

if TYPE_CHECKING:
    from service.telemetry.traces import Tracing

API_ROOT = "/v1"
_VARIABLE = re.compile(r"\{(\w+)\}")
SERVICES = web.AppKey("services", Services)


def create_app(
    settings: ServiceSettings,
    connection: ConnectionSettings,
    emit: EmitLine | None = None,
    tracing: Tracing | None = None,
) -> web.Application:
    """Return the application, which opens and closes its own client; `emit` writes lines of the access log."""
    middlewares: list[Middleware] = [problem_middleware(RESO_ERRORS), slash_middleware]
    if settings.cors_origins:
        middlewares.insert(0, cors_middleware(settings.cors_origins))
    if tracing is not None:
        middlewares.insert(0, tracing.middleware)
    app = web.Application(middlewares=middlewares)
    app._router = BoundedRouter()  # noqa: SLF001 - the argument of the constructor is deprecated without a successor
    app[REFUSAL_PACER] = RefusalPacer(settings.refusals_per_minute, read_networks(settings.trusted_proxies))
    app[DRAINING] = asyncio.Event()
    app.cleanup_ctx.append(partial(_run_services, settings=settings, connection=connection, emit=emit, tracing=tracing))
    with_profile = {
        root + operation.path: operation
        for root in (API_ROOT, COMPATIBLE_ROOT)
        for operation in (*OPERATIONS, *FEED_OPERATIONS, *EXPORT_OPERATIONS)
    }
    for path, operation in with_profile.items():
        _route(app, path, _operation_handler(operation))
    for operation in RESO_OPERATIONS:
        _route(app, API_ROOT + operation.path, _operation_handler(operation))
    app.router.add_post(API_ROOT + BATCH_PATH, _with_route(BATCH_PATH, refuse_batch))
    app[FORM_PATHS] = frozenset(with_profile)
    _route(app, API_ROOT + "/openapi.json", create_document_handler(settings.contact))
    index = create_index_handler(API_ROOT, with_profile)
    for path in ("/", API_ROOT):
        _route(app, path, index)
    trusted = read_networks(settings.trusted_proxies)
    for path, handler in discovery_handlers(API_ROOT, settings.contact, trusted).items():
        _route(app, path, handler)
    site = SiteHandler(settings.contact)
    for path in SITE_PATHS:
        _route(app, path, site.respond)
    _route(app, "/livez", livez)
    _route(app, "/readyz", readyz)
    _route(app, "/startupz", startupz)
    return app


async def _run_services(
    app: web.Application,
    settings: ServiceSettings,
    connection: ConnectionSettings,
    emit: EmitLine | None,
    tracing: Tracing | None,
) -> AsyncIterator[None]:
    client = connect(
        connection,
        connections=settings.connections,
        timeout=settings.deadline_seconds,
        meta_header=False,
        transport_class=AsyncTransport,  # the service repeats requests itself, within a budget
        node_class=ReadingNode,
        node_pool_class=LeastRequestsPool,
    )
    services = app[SERVICES] = build_services(
        client, settings, connection, None if tracing is None else tracing.start_span
    )
    app[REQUEST_OBSERVER] = RequestObserver(
        services.traffic, services.consumers, AccessLog(settings.access_log, services.trusted_proxies, emit)
    )
    app[SEND_MONITOR] = services.sends
    monitor = app[HEALTH_MONITOR] = HealthMonitor(
        services.engine,
        connection,
        settings,
        partial(_read_shared_state, services),
        {connection.alias(resource): mark for resource, mark in services.marks.items()},
    )
    await services.limiter.open()
    # Before the port opens: no response comes from an unchecked index.
    await asyncio.gather(monitor.check_now(), services.keys.warm())
    background = (monitor.run, services.keys.run, services.loop_lag.run, services.sends.run, services.audit.run)
    tasks = [asyncio.create_task(keep_running(run)) for run in background]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await services.news.close()
    await asyncio.gather(services.keys.usage.close(), services.audit.close())
    await services.limiter.close()
    await client.close()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)


async def _read_shared_state(services: Services) -> None:
    """Read what every request needs; raise ApiError on failure."""
    await asyncio.gather(services.directory.get(), *(mark.get() for mark in services.marks.values()))
    status, _ = await get_within_timeout(services.engine, f"/{services.connection.keys_index}/_doc/readiness")
    if status not in {200, 404}:
        raise EngineUnavailable("The keys may not be read.")


def build_services(
    client: AsyncElasticsearch,
    settings: ServiceSettings,
    connection: ConnectionSettings,
    trace: StartSpan | None = None,
) -> Services:
    """Build the services around one Elasticsearch client."""
    engine = SearchEngine(client.transport, connection.authorization(), settings, trace)
    ages = CacheAges(settings.fresh_seconds, settings.stale_seconds)
    marks = {
        resource: CachedValue(
            partial(read_mark, engine, connection.control_index, connection.alias(resource)),
            ages,
            settings.shared_seconds,
        )
        for resource in RESOURCES
    }
    return Services(
        engine=engine,
        admission=AdmissionControl(settings),
        keys=_key_ring(engine, settings, connection, ages),
        directory=CachedValue(CompanyDirectoryReader(engine, connection.alias(COMPANY)).read, ages),
        marks=marks,
        events=CachedValue(EventLedgerReader(engine, connection.control_index).read, ages),
        news=ChangeNotifier(marks),
        tokens=TokenVault(CachedValue(partial(read_token_sealer, engine, connection.control_index), ages)),
        connection=connection,
        settings=settings,
        limiter=create_limiter(settings, connection.prefix),
        auth_failures=AuthFailureLimiter(settings.failures_per_minute),
        trusted_proxies=read_networks(settings.trusted_proxies),
        pulses=tuple(node.health for node in client.transport.node_pool.all() if isinstance(node, ReadingNode)),
        sends=SendMonitor(SendLimits.of(settings)),
        publications=open_publications(settings),
        audit=WrittenAudit(AuditLog(), engine, connection.audit_index) if settings.audit_days else Audit(),
    )


def _key_ring(
    engine: SearchEngine, settings: ServiceSettings, connection: ConnectionSettings, ages: CacheAges
) -> KeyRing:
    revocations = RevocationList(settings.revocation_list, ages.fresh_seconds)
    return KeyRing(engine, connection.keys_index, ages, KeyUsage(engine, connection.usage_index), revocations)


def _route(app: web.Application, path: str, handler: Handler) -> None:
    # By default a variable matches no braces, which an identifier may have.
    pattern = _VARIABLE.sub(r"{\1:[^/]+}", path)
    app.router.add_get(pattern, _with_route(path, handler))
    app.router.add_route("OPTIONS", pattern, _with_route(path, _options))


def _with_route(path: str, handler: Handler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        CURRENT_OBSERVATION.get().route = path
        return await handler(request)

    return handle


async def _options(_: web.Request) -> web.Response:
    return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS"})


def _operation_handler(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return await operation.respond(request.app[SERVICES], request)

    return handle
