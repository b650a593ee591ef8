"""Composition: settings in, application out. Nothing else reads settings or opens connections."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from cluster.connection import ConnectionSettings, connect
from cluster.node import ReadingNode
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING
from service.directory import read_directory
from service.elastic import Engine
from service.freshness import Ages, Kept
from service.health import DRAINING, live, ready
from service.keys.ring import KeyRing
from service.marks import read_mark
from service.operation import Operation, Services
from service.problems import answer_problems
from service.resources import OPERATIONS
from service.slashes import ignore_extra_slashes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from elasticsearch import AsyncElasticsearch

    from service.settings import ServiceSettings

ROOT = "/v1"
SERVICES = web.AppKey("services", Services)
# The indexes whose first page tells the next watermark.
_WALKED = (LISTING, SOLD_LISTING, AGENT)


def create_app(settings: ServiceSettings, connection: ConnectionSettings) -> web.Application:
    """Return the application; it opens and closes its own client."""
    app = web.Application(middlewares=[answer_problems, ignore_extra_slashes])
    app[DRAINING] = asyncio.Event()
    app.cleanup_ctx.append(partial(_services, settings=settings, connection=connection))
    for operation in OPERATIONS:
        _route(app, ROOT + operation.path, _answering(operation))
    _route(app, "/livez", live)
    _route(app, "/readyz", _ready)
    return app


async def _services(
    app: web.Application, settings: ServiceSettings, connection: ConnectionSettings
) -> AsyncIterator[None]:
    client = connect(
        connection,
        connections=settings.connections,
        timeout=settings.deadline_seconds,
        meta_header=False,
        node_class=ReadingNode,
    )
    app[SERVICES] = compose(client, settings, connection)
    yield
    await client.close()


def compose(client: AsyncElasticsearch, settings: ServiceSettings, connection: ConnectionSettings) -> Services:
    """Build what handlers work with round one client."""
    engine = Engine(client.transport, connection.authorization(), settings.deadline_seconds)
    ages = Ages(settings.fresh_seconds, settings.stale_seconds)
    return Services(
        engine=engine,
        keys=KeyRing(engine, connection.keys_index, ages),
        directory=Kept(partial(read_directory, engine, connection.alias(COMPANY)), ages),
        marks={
            resource: Kept(partial(read_mark, engine, connection.control_index, connection.alias(resource)), ages)
            for resource in _WALKED
        },
        connection=connection,
        settings=settings,
    )


def _route(app: web.Application, path: str, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
    app.router.add_get(path, handler)
    app.router.add_route("OPTIONS", path, _options)


async def _options(_: web.Request) -> web.Response:
    return web.Response(status=204, headers={"Allow": "GET, HEAD, OPTIONS"})


async def _ready(request: web.Request) -> web.Response:
    return await ready(request, request.app[SERVICES])


def _answering(operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return await operation.answer(request.app[SERVICES], request)

    return answer
