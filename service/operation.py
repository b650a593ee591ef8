"""One operation: a path, its parameters and its handler; and the way of a request through it.

HTTP -> turn -> key -> limits -> parameters -> scope -> handler (query, Elasticsearch, paging, projection) -> bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from service.addresses import client_address
from service.authentication import authenticate
from service.deprecation import Announcements, Deprecation, Users
from service.encoding.answers import encoded
from service.encoding.packer import Packer
from service.errors import Unauthorized
from service.gathering import Gathering
from service.layers import Laps, Layer, Ledger
from service.limits.limiter import admitted, refunded
from service.parameters.fields import Parameter
from service.parameters.parser import parse, unknown_names
from service.parts import Parts
from service.permissions import refuse_guarded, withheld
from service.projection import Variant
from service.responses import count
from service.scope import COMPANY, PARENT, resolve
from service.telemetry.consumers import Consumers
from service.telemetry.loop_lag import LoopLag
from service.telemetry.observation import NONE, OBSERVED
from service.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web
    from marshmallow import Schema
    from yarl import URL

    from cluster.connection import ConnectionSettings
    from cluster.control import Mark
    from cluster.pulse import Pulse
    from mappings.fields import View
    from mappings.resource import Resource
    from service.addresses import Network
    from service.admission import Admission
    from service.directory import Directory
    from service.elastic import Engine
    from service.freshness import Kept
    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing
    from service.limits.failures import Failures
    from service.limits.limiter import Limiter
    from service.scope import Scope
    from service.settings import ServiceSettings

# The parameter that chooses the spelling of the answer's keys.
UNDERSCORED = "underscore_response"


@dataclass(frozen=True)
class Services:
    """What handlers work with; opened and closed with the application."""

    engine: Engine
    keys: KeyRing
    admission: Admission
    directory: Kept[Directory]
    marks: dict[Resource, Kept[Mark | None]]
    connection: ConnectionSettings
    settings: ServiceSettings
    limiter: Limiter
    failures: Failures
    trusted: tuple[Network, ...]
    pulses: tuple[Pulse, ...]
    packer: Packer = field(default_factory=Packer)
    gathering: Gathering = field(default_factory=Gathering)
    ledger: Ledger = field(default_factory=Ledger)
    users_of_deprecated: Users = field(default_factory=Users)
    traffic: Traffic = field(default_factory=Traffic)
    consumers: Consumers = field(default_factory=Consumers)
    loop_lag: LoopLag = field(default_factory=LoopLag)


@dataclass(frozen=True)
class Call:
    """One request whose key, parameters and scope were accepted; `withheld` are field groups it must not tell of."""

    services: Services
    laps: Laps
    scope: Scope
    directory: Directory
    parameters: dict[str, Any]
    path: dict[str, str]
    url: URL
    withheld: frozenset[str]

    def variant(self, resource: Resource, view: View) -> Variant:
        """Return the form to answer records in: by the flags and the spelling that were sent and what the key may see.

        No other place makes one, so that no operation can forget what the key may not see.
        """
        flags = frozenset(filter(self.parameters.get, resource.flags(view)))
        return Variant(resource, view, flags, self.parameters.get(UNDERSCORED, False), self.withheld)

    async def search(self, resource: Resource, body: dict[str, object]) -> bytes:
        """Search a resource's live generation: at least the state of the mark that this request can have read."""
        self.laps.lap(Layer.QUERY)
        alias, mark = self.services.connection.alias(resource), self._mark(resource)
        answer = await self.services.engine.search(alias, body, mark)
        self.laps.lap(Layer.ELASTICSEARCH)
        return answer

    def walked(self, resource: Resource, body: dict[str, object], following: dict[str, object]) -> None:
        """Take note of a page of a walk and of the search for the next one."""
        self.services.engine.walked(self.services.connection.alias(resource), body, following, self._mark(resource))

    def _mark(self, resource: Resource) -> Mark | None:
        return self.services.marks[resource].current if resource in self.services.marks else None


@dataclass(frozen=True)
class Operation:
    """A GET operation of the contract; `deprecated` announces that it will go away."""

    path: str
    schema: Schema
    handler: Callable[[Call], Awaitable[web.Response]]
    deprecated: Deprecation | None = None

    @cached_property
    def announced(self) -> Announcements | None:
        """What of it is deprecated; None where nothing is."""
        parameters = {name: field for name, field in self.schema.fields.items() if isinstance(field, Parameter)}
        announced = {name: each.deprecation for name, each in parameters.items() if each.deprecation}
        return Announcements(self.path, self.deprecated, announced) if announced or self.deprecated else None

    async def answer(self, services: Services, request: web.Request) -> web.Response:
        """Take a request through all steps, within the deadline.

        The place is given back before the answer is written: who reads slowly takes nobody's turn.
        """
        laps = Laps()
        seen = OBSERVED.get()
        seen.laps = laps
        used = self.announced.tell(request) if self.announced else {}
        async with asyncio.timeout(services.settings.deadline_seconds), services.admission.lane(self.path):
            laps.lap(Layer.TURN)
            key = await self._known(services, request)
            seen.key_id, seen.tier = key.key_id, services.limiter.tier(key) or NONE
            services.users_of_deprecated.name(key.key_id, used)
            async with admitted(services.limiter, request, key):
                laps.lap(Layer.AUTH)
                response = await self.handler(await self._accept(services, request, laps, key))
                laps.lap(Layer.SPLICE)
                if isinstance(response.body, Parts):
                    seen.rows = count(response.body.pieces)
                response = await encoded(request, response, services.packer)
                laps.lap(Layer.ENCODE)
            # What is left of a count that went on beside the search.
            laps.lap(Layer.AUTH)
            if response.status == HTTPStatus.NOT_MODIFIED:
                await refunded(services.limiter, request, key)
        self._account(services, response, laps)
        if services.settings.tolerate_unknown and (ignored := unknown_names(request, self.schema)):
            response.headers["Warning"] = f'299 - "Unknown parameters were ignored: {len(ignored)}"'
        return response

    def _account(self, services: Services, response: web.Response, laps: Laps) -> None:
        """Tell what each layer cost: those so far to the client, if that is set, and all of them to the metrics."""
        if services.settings.server_timing:
            response.headers["Server-Timing"] = laps.header()
        if isinstance(response.body, Parts):
            response.body.on_sent = partial(self._sent, services.ledger, laps)
        else:
            # 304: there is nothing to write.
            services.ledger.add(self.path, laps)

    def _sent(self, ledger: Ledger, laps: Laps) -> None:
        laps.lap(Layer.WRITE)
        ledger.add(self.path, laps)

    async def _known(self, services: Services, request: web.Request) -> ApiKey:
        try:
            return await authenticate(request, services.keys)
        except Unauthorized:
            # Only now: a valid key is never refused for what others do at its address.
            services.failures.count(client_address(request, services.trusted))
            raise

    async def _accept(self, services: Services, request: web.Request, laps: Laps, key: ApiKey) -> Call:
        parameters = await parse(request, self.schema, tolerate_unknown=services.settings.tolerate_unknown)
        hidden = withheld(key.fields)
        if hidden:
            refuse_guarded(self.schema, parameters, hidden)
        directory = await services.directory.get()
        scope = resolve(key, directory, parameters.get(COMPANY), parameters.get(PARENT))
        return Call(services, laps, scope, directory, parameters, dict(request.match_info), request.rel_url, hidden)
