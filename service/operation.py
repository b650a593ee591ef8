"""One operation: a path, its parameters and its handler; and the way of a request through it.

HTTP -> turn -> key -> limits -> parameters -> scope -> handler (query, Elasticsearch, paging, projection) -> bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from service.addresses import client_address
from service.admission import Kind
from service.authentication import authenticate
from service.deprecation import Announcements, Deprecation
from service.encoding.answers import encoded
from service.errors import Unauthorized
from service.layers import Laps, Layer
from service.limits.limiter import admitted, refunded
from service.parameters.fields import Parameter
from service.parameters.parser import parse, unknown_names
from service.parts import Parts
from service.permissions import refuse_guarded, withheld
from service.projection import Variant
from service.responses import count
from service.scope import COMPANY, PARENT, resolve
from service.telemetry.observation import NONE, OBSERVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web
    from marshmallow import Schema
    from multidict import MultiMapping
    from yarl import URL

    from cluster.control import Mark
    from mappings.fields import View
    from mappings.resource import Resource
    from service.directory import Directory
    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing
    from service.layers import Ledger
    from service.scope import Scope
    from service.services import Services

# The parameter that chooses the spelling of the answer's keys.
UNDERSCORED = "underscore_response"


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
    headers: MultiMapping[str]
    withheld: frozenset[str]
    origin: str = ""  # of answers that hold absolute URLs: the scheme and host by which the client came

    def variant(self, resource: Resource, view: View, *, whole: bool = False) -> Variant:
        """Return the form to answer records in: by the flags and the spelling that were sent and what the key may see.

        `whole` stands for all flags. No other place makes a form, so that no operation can forget what the key may not
        see.
        """
        flags = frozenset(name for name in resource.flags(view) if whole or self.parameters.get(name))
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
    """A GET operation; `deprecated` announces that it will go away.

    `kind` names the lane it is answered in; one that may hold its answer back gets so many `seconds` more.
    """

    path: str
    schema: Schema
    handler: Callable[[Call], Awaitable[web.Response]]
    deprecated: Deprecation | None = None
    kind: Kind | None = None
    seconds: float = 0.0

    @cached_property
    def lane(self) -> Kind:
        """The lane: a show is what has an identifier in its path, if nothing else is said."""
        return self.kind or (Kind.SHOW if "{" in self.path else Kind.PAGE)

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
        seconds = services.settings.deadline_seconds + self.seconds
        async with asyncio.timeout(seconds), services.admission.lane(self.lane):
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
        else:  # 304: there is nothing to write
            services.ledger.add(self.path, laps)

    def _sent(self, ledger: Ledger, laps: Laps) -> None:
        laps.lap(Layer.WRITE)
        ledger.add(self.path, laps)

    async def _known(self, services: Services, request: web.Request) -> ApiKey:
        try:
            return await self._authenticated(request, services.keys)
        except Unauthorized:
            # Only now: a valid key is never refused for what others do at its address.
            services.failures.count(client_address(request, services.trusted))
            raise

    async def _authenticated(self, request: web.Request, keys: KeyRing) -> ApiKey:
        return await authenticate(request, keys)

    async def _accept(self, services: Services, request: web.Request, laps: Laps, key: ApiKey) -> Call:
        sent = await parse(request, self.schema, tolerate_unknown=services.settings.tolerate_unknown)
        if hidden := withheld(key.fields):
            refuse_guarded(self.schema, sent, hidden)
        directory = await services.directory.get()
        scope = resolve(key, directory, sent.get(COMPANY), sent.get(PARENT))
        path, url = dict(request.match_info), request.rel_url
        return Call(services, laps, scope, directory, sent, path, url, request.headers, hidden)
