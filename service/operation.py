"""One operation: a path, its parameters and its handler; and the way of a request through it.

HTTP -> key -> parameters -> scope -> handler (query, Elasticsearch, paging, projection) -> bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.authentication import authenticate
from service.parameters.parser import parse, unknown_names
from service.scope import COMPANY, PARENT, resolve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web
    from marshmallow import Schema
    from yarl import URL

    from cluster.connection import ConnectionSettings
    from cluster.control import Mark
    from mappings.resource import Resource
    from service.directory import Directory
    from service.elastic import Engine
    from service.freshness import Kept
    from service.keys.ring import KeyRing
    from service.scope import Scope
    from service.settings import ServiceSettings


@dataclass(frozen=True)
class Services:
    """What handlers work with; opened and closed with the application."""

    engine: Engine
    keys: KeyRing
    directory: Kept[Directory]
    marks: dict[Resource, Kept[Mark | None]]
    connection: ConnectionSettings
    settings: ServiceSettings


@dataclass(frozen=True)
class Call:
    """One request whose key, parameters and scope were accepted."""

    services: Services
    scope: Scope
    directory: Directory
    parameters: dict[str, Any]
    path: dict[str, str]
    url: URL

    async def search(self, resource: Resource, body: dict[str, object]) -> bytes:
        """Search a resource's live generation."""
        return await self.services.engine.search(self.services.connection.alias(resource), body)


@dataclass(frozen=True)
class Operation:
    """A GET operation of the contract."""

    path: str
    schema: Schema
    handler: Callable[[Call], Awaitable[web.Response]]

    async def answer(self, services: Services, request: web.Request) -> web.Response:
        """Take a request through all steps, within the deadline."""
        async with asyncio.timeout(services.settings.deadline_seconds):
            response = await self.handler(await self._accept(services, request))
        if services.settings.tolerate_unknown and (ignored := unknown_names(request, self.schema)):
            response.headers["Warning"] = f'299 - "Unknown parameters were ignored: {len(ignored)}"'
        return response

    async def _accept(self, services: Services, request: web.Request) -> Call:
        key = await authenticate(request, services.keys)
        parameters = await parse(request, self.schema, tolerate_unknown=services.settings.tolerate_unknown)
        directory = await services.directory.get()
        scope = resolve(key, directory, parameters.get(COMPANY), parameters.get(PARENT))
        return Call(services, scope, directory, parameters, dict(request.match_info), request.rel_url)
