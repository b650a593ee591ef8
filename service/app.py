"""Build the application from its settings. Nothing else reads settings or opens connections."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from cluster.http.nodes import LeastRequestsPool, ReadingNode
from mappings import COMPANY, RESOURCES
from service.background import running
from service.capabilities import installed_capabilities
from service.capability import Capability, Surface
from service.errors import EngineUnavailable
from service.health.checks import get_within_timeout
from service.health.monitor import DRAINING, HEALTH_MONITOR, HealthMonitor, livez, readyz, startupz
from service.http.problems import problem_middleware
from service.http.requests import BoundedRouter, RequestAdapter, allowed_hosts_middleware
from service.http.responses import cors_middleware
from service.http.send_monitor import SEND_MONITOR, SendLimits, SendMonitor
from service.keys.revocation_list import RevocationList
from service.keys.ring import KeyRing, KeyUsage
from service.limits.admission import AdmissionControl
from service.limits.rates import REFUSAL_PACER, AuthFailureLimiter, KeyLimiter, RefusalPacer
from service.operation import Operation
from service.resources import OPERATIONS
from service.resources.responses import RecordFormats
from service.search.cached_value import CacheAges, CachedValue
from service.search.engine import SearchEngine
from service.search.placement import LiveIndex
from service.search.shared_state import CompanyDirectoryReader, read_mark
from service.services import SERVICES, Limits, Services
from service.settings import ServiceSettings
from service.telemetry.logs import REQUEST_OBSERVER, AccessLog, EmitLine, RequestObserver
from service.telemetry.metrics import create_metrics_app
from service.telemetry.observation import CURRENT_OBSERVATION, StartSpan, Tracing
from service.token import TokenVault, read_token_sealer

API_ROOT = "/v1"
_VARIABLE = re.compile(r"\{(\w+)\}")


def create_app(
    settings: ServiceSettings,
    connection: ConnectionSettings,
    emit: EmitLine | None = None,
    tracing: Tracing | None = None,
) -> web.Application:
    """Return the application, which opens and closes its own client; `emit` writes lines of the access log."""
    capabilities = installed_capabilities(settings.without)
    surface = _surface(settings, capabilities)
    app = web.Application(middlewares=_middlewares(surface, tracing))
    app._router = BoundedRouter()  # noqa: SLF001 - the argument of the constructor is deprecated without a successor
    app[REFUSAL_PACER] = RefusalPacer(settings.refusals_per_minute, settings.proxies)
    app[DRAINING] = asyncio.Event()
    app.cleanup_ctx.append(partial(_run_services, surface, connection, emit, tracing))
    for path, operation in _operations(capabilities):
        _route(app, "GET", path, partial(operation.respond, path))
    for capability in capabilities:
        for (method, path), handler in (capability.routes(surface) if capability.routes else {}).items():
            _route(app, method, path, partial(_note_route, path, handler))
    for path, handler in {"/livez": livez, "/readyz": readyz, "/startupz": startupz}.items():
        _route(app, "GET", path, partial(_note_route, path, handler))
    return app


def create_operators_app(service: web.Application) -> web.Application:
    """Return the application of the private port of a service that has been set up: metrics, and what is installed."""
    settings = service[SERVICES].settings
    app = create_metrics_app(service[SERVICES])
    app.middlewares.append(allowed_hosts_middleware(settings.metrics_allowed_hosts))
    for capability in installed_capabilities(settings.without):
        if capability.operators is not None:
            capability.operators(service, app)
    return app


def load_tracing(settings: ServiceSettings, environ: Mapping[str, str]) -> Tracing | None:
    """Return the tracing that the environment configures, None if it is disabled or not installed."""
    loaders = (capability.tracing for capability in installed_capabilities(settings.without) if capability.tracing)
    return next((tracing for load in loaders if (tracing := load(environ))), None)


def _surface(settings: ServiceSettings, capabilities: tuple[Capability, ...]) -> Surface:
    paths = tuple(path for path, operation in _operations(capabilities) if operation.adaptable)
    return Surface(API_ROOT, settings, capabilities, paths)


def _operations(capabilities: Sequence[Capability]) -> Iterator[tuple[str, Operation]]:
    """Yield all operations by path; those that can be adapted also below the roots that capabilities add."""
    roots = (API_ROOT, *(capability.second_root for capability in capabilities if capability.second_root))
    for operation in (*OPERATIONS, *(added for capability in capabilities for added in capability.operations)):
        for root in roots if operation.adaptable else (API_ROOT,):
            yield root + operation.path, operation


def _middlewares(surface: Surface, tracing: Tracing | None) -> list[Middleware]:
    origins = surface.settings.cors_origins
    errors = [capability.errors for capability in surface.capabilities if capability.errors is not None]
    return [
        *([] if tracing is None else [tracing.middleware]),
        *([cors_middleware(origins)] if origins else []),
        problem_middleware(errors, surface.adapter),
    ]


async def _run_services(
    surface: Surface,
    connection: ConnectionSettings,
    emit: EmitLine | None,
    tracing: Tracing | None,
    app: web.Application,
) -> AsyncIterator[None]:
    settings, capabilities = surface.settings, surface.capabilities
    async with AsyncExitStack() as stack:
        if tracing is not None:
            stack.push_async_callback(asyncio.to_thread, tracing.close)
        client = reading_client(connection, settings.connections, settings.deadline_seconds)
        stack.push_async_callback(client.close)
        start_span = tracing.start_span if tracing else None
        services = app[SERVICES] = build_services(client, settings, connection, start_span)
        services.provide(RequestAdapter, surface.adapter)
        services.provide(
            RecordFormats, RecordFormats.of([form for capability in capabilities for form in capability.formats])
        )
        listeners = [capability.listens(services) for capability in capabilities if capability.listens]
        access_log = AccessLog(settings.access_log, settings.proxies, emit)
        app[REQUEST_OBSERVER] = RequestObserver(services.totals.traffic, access_log, listeners)
        app[SEND_MONITOR] = services.limits.unread
        monitor = app[HEALTH_MONITOR] = HealthMonitor(
            services.engine,
            connection,
            settings,
            partial(_read_shared_state, services),
            {index.alias: index.mark for index in services.indices.values()},
        )
        stack.push_async_callback(services.keys.usage.close)
        for capability in capabilities:
            if capability.open is not None:
                await stack.enter_async_context(capability.open(services))
        # Before the port opens: no response comes from an unchecked index.
        await asyncio.gather(monitor.check_now(), services.keys.warm())
        background = running(monitor.run, services.keys.run, services.totals.loop_lag.run, services.limits.unread.run)
        await stack.enter_async_context(background)
        yield


def reading_client(connection: ConnectionSettings, connections: int, timeout: float) -> AsyncElasticsearch:
    """Return the client whose nodes a `SearchEngine` asks; arguments as for `connect`."""
    return connect(
        connection,
        connections=connections,
        timeout=timeout,
        node_class=ReadingNode,
        node_pool_class=LeastRequestsPool,
    )


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
    """Build the services around one Elasticsearch client; capabilities provide theirs when they are opened."""
    engine = SearchEngine(client.transport, connection.authorization(), settings, trace)
    ages, key_ages = CacheAges.of(settings), CacheAges.of_keys(settings)
    revocations = RevocationList(settings.revocation_list, key_ages.fresh_seconds)
    usage = KeyUsage(engine, connection.usage_index)
    indices = {}
    for resource in RESOURCES:
        alias = connection.alias(resource)
        read = partial(read_mark, engine, connection.control_index, alias)
        indices[resource] = LiveIndex(alias, CachedValue(read, ages, settings.shared_seconds))
    return Services(
        connection=connection,
        settings=settings,
        engine=engine,
        keys=KeyRing(engine, connection.keys_index, key_ages, usage, revocations),
        limits=Limits(
            AdmissionControl(settings),
            KeyLimiter(settings),
            AuthFailureLimiter(settings.failures_per_minute),
            SendMonitor(SendLimits.of(settings)),
        ),
        directory=CachedValue(CompanyDirectoryReader(engine, connection.alias(COMPANY)).read, ages),
        indices=indices,
        tokens=TokenVault(CachedValue(partial(read_token_sealer, engine, connection.control_index), ages)),
    )


def _route(app: web.Application, method: str, path: str, handler: Handler) -> None:
    # By default a variable matches no braces, which an identifier may have.
    pattern = _VARIABLE.sub(r"{\1:[^/]+}", path)
    if method != "GET":
        app.router.add_route(method, pattern, handler)
        return
    app.router.add_get(pattern, handler)
    app.router.add_route("OPTIONS", pattern, partial(_note_route, path, _options))


async def _note_route(path: str, handler: Handler, request: web.Request) -> web.StreamResponse:
    CURRENT_OBSERVATION.get().route = path
    return await handler(request)


async def _options(_: web.Request) -> web.Response:
    return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS"})
