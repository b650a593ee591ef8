"""Composition: settings in, application out. Nothing else reads settings or opens connections."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from cluster.connection import ConnectionSettings, connect
from cluster.node import ReadingNode
from cluster.selection import FewestUnderWay
from mappings import COMPANY, RESOURCES
from service.addresses import read_networks
from service.admission import Admission
from service.cross_origin import shared_with
from service.directory import read_directory
from service.elastic import Engine
from service.errors import EngineUnavailable
from service.feed.news import News
from service.freshness import Ages, Kept
from service.health import DRAINING, WATCH, live, ready, started
from service.keys.ring import KeyRing
from service.keys.usage import KeyUsage
from service.limits.failures import Failures
from service.limits.limiter import make_limiter
from service.marks import read_mark
from service.openapi.serving import describing
from service.problems import answer_problems
from service.reso.operations import RESO_OPERATIONS
from service.reso.sequence import Reader
from service.resources import FEED_OPERATIONS, OPERATIONS
from service.services import Services
from service.site.serving import PATHS, Site
from service.slashes import ignore_extra_slashes
from service.soundness import asked
from service.telemetry.access_log import AccessLog
from service.telemetry.observation import OBSERVED
from service.telemetry.observer import OBSERVER, Observer
from service.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp.typedefs import Middleware
    from elasticsearch import AsyncElasticsearch

    from service.operation import Operation
    from service.problems import Handler
    from service.settings import ServiceSettings
    from service.telemetry.access_log import Emit
    from service.telemetry.attempts import Trace
    from service.telemetry.tracing import Tracing

ROOT = "/v1"
SERVICES = web.AppKey("services", Services)


def create_app(
    settings: ServiceSettings,
    connection: ConnectionSettings,
    emit: Emit | None = None,
    tracing: Tracing | None = None,
) -> web.Application:
    """Return the application; it opens and closes its own client. `emit` writes lines of the access log."""
    middlewares: list[Middleware] = [answer_problems, ignore_extra_slashes]
    if settings.cors_origins:
        middlewares.insert(0, shared_with(settings.cors_origins))
    if tracing is not None:
        middlewares.insert(0, tracing.middleware)
    app = web.Application(middlewares=middlewares)
    app[DRAINING] = asyncio.Event()
    app.cleanup_ctx.append(partial(_services, settings=settings, connection=connection, emit=emit, tracing=tracing))
    for operation in (*OPERATIONS, *FEED_OPERATIONS, *RESO_OPERATIONS):
        _route(app, ROOT + operation.path, _answering(operation))
    _route(app, ROOT + "/openapi.json", describing())
    site = Site()
    for path in PATHS:
        _route(app, path, site.answer)
    _route(app, "/livez", live)
    _route(app, "/readyz", ready)
    _route(app, "/startupz", started)
    return app


async def _services(
    app: web.Application,
    settings: ServiceSettings,
    connection: ConnectionSettings,
    emit: Emit | None,
    tracing: Tracing | None,
) -> AsyncIterator[None]:
    client = connect(
        connection,
        connections=settings.connections,
        timeout=settings.deadline_seconds,
        meta_header=False,
        node_class=ReadingNode,
        node_pool_class=FewestUnderWay,
    )
    services = app[SERVICES] = compose(client, settings, connection, None if tracing is None else tracing.trace)
    app[OBSERVER] = Observer(
        services.traffic, services.consumers, AccessLog(settings.access_log, services.trusted, emit)
    )
    watch = app[WATCH] = Watch(services.engine, connection, settings, partial(_read, services))
    await services.limiter.open()
    # Before the port opens: no request is answered from an index that was not looked at.
    await asyncio.gather(watch.look(), services.keys.warm())
    running = [asyncio.create_task(work) for work in (watch.run(), services.keys.run(), services.loop_lag.run())]
    yield
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    await services.news.close()
    await services.keys.usage.write()
    await services.limiter.close()
    await client.close()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)


async def _read(services: Services) -> None:
    """Read what every request needs; raise ApiError."""
    await asyncio.gather(services.directory.get(), *(mark.get() for mark in services.marks.values()))
    status, _ = await asked(services.engine, f"/{services.connection.keys_index}/_doc/readiness")
    if status not in {200, 404}:
        raise EngineUnavailable("The keys may not be read.")


def compose(
    client: AsyncElasticsearch, settings: ServiceSettings, connection: ConnectionSettings, trace: Trace | None = None
) -> Services:
    """Build what handlers work with round one client."""
    engine = Engine(client.transport, connection.authorization(), settings, trace)
    ages = Ages(settings.fresh_seconds, settings.stale_seconds)
    marks = {
        resource: Kept(
            partial(read_mark, engine, connection.control_index, connection.alias(resource)),
            ages,
            settings.shared_seconds,
        )
        for resource in RESOURCES
    }
    return Services(
        engine=engine,
        admission=Admission(settings),
        keys=KeyRing(engine, connection.keys_index, ages, KeyUsage(engine, connection.usage_index)),
        directory=Kept(partial(read_directory, engine, connection.alias(COMPANY)), ages),
        marks=marks,
        events=Kept(Reader(engine, connection.control_index).read, ages),
        news=News(marks),
        connection=connection,
        settings=settings,
        limiter=make_limiter(settings, connection.prefix),
        failures=Failures(settings.failures_per_minute),
        trusted=read_networks(settings.trusted_proxies),
        pulses=tuple(node.pulse for node in client.transport.node_pool.all() if isinstance(node, ReadingNode)),
    )


def _route(app: web.Application, path: str, handler: Handler) -> None:
    app.router.add_get(path, _noted(path, handler))
    app.router.add_route("OPTIONS", path, _noted(path, _options))


def _noted(path: str, handler: Handler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        OBSERVED.get().route = path
        return await handler(request)

    return handle


async def _options(_: web.Request) -> web.Response:
    return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS"})


def _answering(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return await operation.answer(request.app[SERVICES], request)

    return answer
