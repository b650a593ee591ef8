"""One operation: a path, its parameters and its handler, and the steps of a request through it.

HTTP -> key -> admission -> limits -> parameters -> scope -> handler (query, Elasticsearch, projection) -> bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp.payload import Payload

from service.audit.request_audit import NOT_AUDITED, REQUEST_AUDIT, RequestAudit
from service.compatible_requests import adapt_request
from service.errors import Unauthorized
from service.http.client_address import client_address
from service.http.conditional import has_sent_tag
from service.http.deprecation import Deprecation, OperationDeprecations
from service.http.payload import BufferListPayload
from service.http.response_encoding import encode_response
from service.http.responses import count_records
from service.keys.authentication import authenticate, confirm
from service.keys.permissions import reject_guarded_parameters, withheld_groups
from service.limits.admission import LARGE_PAGE_RECORDS, RequestKind
from service.limits.admission_lane import ADMISSION_SLOT
from service.limits.key_limiter import admit, refund_request
from service.parameters.parser import parse_query, unknown_parameters
from service.parameters.types import Parameter
from service.records.projection import Variant
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER, resolve_scope
from service.search.display import displayed
from service.search.query import Selection
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL
from service.telemetry.timing import Layer, Timer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiohttp import web
    from marshmallow import Schema
    from multidict import MultiMapping
    from yarl import URL

    from cluster.control_index import Mark
    from mappings.display import DisplayLicence
    from mappings.fields import View
    from mappings.resource import Resource
    from service.keys.record import ApiKey
    from service.limits.admission_lane import AdmissionSlot
    from service.scope import CompanyDirectory, Scope
    from service.search.query import Clause
    from service.services import Services

# The parameter that chooses the spelling of the response's keys.
UNDERSCORE_PARAMETER = "underscore_response"


@dataclass(frozen=True)
class RequestContext:
    """An accepted request: its key, parameters and scope. `withheld` are field groups that its key may not see."""

    services: Services
    timer: Timer
    scope: Scope
    directory: CompanyDirectory
    schema: Schema
    parameters: dict[str, Any]
    path: dict[str, str]
    url: URL
    headers: MultiMapping[str]
    withheld: frozenset[str]
    slot: AdmissionSlot
    key_id: str = ""  # the public id of the key
    audit: RequestAudit = NOT_AUDITED  # notes which records the response sends
    is_compatible: bool = False  # whether the key or the request has the compatible profile
    origin: str = ""  # for absolute URLs in bodies: the scheme and host of the client's request
    display: DisplayLicence | None = None  # the key's licence to show listings

    def variant(self, resource: Resource, view: View, *, all_flags: bool = False) -> Variant:
        """Return the variant to send records in, by the request's flags and spelling and the key's permissions.

        Every operation gets its variant here, so that none can forget the fields that a key may not see.
        """
        flags = frozenset(name for name in resource.flags(view) if all_flags or self.parameters.get(name))
        underscored = self.parameters.get(UNDERSCORE_PARAMETER, False)
        return Variant(resource, view, flags, underscored, self.withheld, bool(self.display and resource.address))

    def selection(self, resource: Resource, clauses: tuple[Clause, ...] = ()) -> Selection:
        """Return the records in the request's scope that the key may show; every operation on listings uses this."""
        return Selection(resource, self.scope, (*displayed(resource, self.display), *clauses))

    def exact_names(self, resource: Resource) -> frozenset[str]:
        """Return the members of records that this request gets with the source's fraction."""
        return resource.exact_names if self.is_compatible else frozenset()

    async def search(self, resource: Resource, body: dict[str, object]) -> bytes:
        """Search a resource's live generation, at least as new as the mark that this request can have read."""
        self.timer.record(Layer.QUERY)
        if body.get("size", 0) > LARGE_PAGE_RECORDS:  # type: ignore[operator]
            await self._take_turn_of_large_pages()
        alias, mark = self.services.connection.alias(resource), self.mark(resource)
        self.audit.searches(resource, mark)
        response = await self.services.engine.search(alias, body, mark)
        self.timer.record(Layer.ELASTICSEARCH)
        return response

    def require(self, resource: Resource, fields: Iterable[str]) -> None:
        """Raise RebuildDue for search fields that are read from documents and that the live index lacks."""
        self.services.engine.refuse_missing(self.services.connection.alias(resource), fields)

    async def _take_turn_of_large_pages(self) -> None:
        lane = self.services.admission.lane
        await self.slot.exchange(lane(RequestKind.PAGE), lane(RequestKind.LARGE_PAGE))
        self.timer.record(Layer.TURN)

    def mark(self, resource: Resource) -> Mark | None:
        """Return the mark that this request can have read."""
        return self.services.marks[resource].current if resource in self.services.marks else None


@dataclass(frozen=True)
class Operation:
    """A GET operation.

    `kind` chooses its admission lane. `extra_seconds` extends the deadline of an operation that may wait before it
    responds.
    """

    path: str
    schema: Schema
    handler: Callable[[RequestContext], Awaitable[web.Response]]
    deprecation: Deprecation | None = None
    kind: RequestKind | None = None
    extra_seconds: float = 0.0

    @cached_property
    def lane(self) -> RequestKind:
        """The admission lane; by default a path with an identifier is a show, any other a page."""
        return self.kind or (RequestKind.SHOW if "{" in self.path else RequestKind.PAGE)

    @cached_property
    def deprecations(self) -> OperationDeprecations | None:
        """The deprecations of the operation and its parameters; None without any."""
        parameters = {name: field for name, field in self.schema.fields.items() if isinstance(field, Parameter)}
        announced = {name: field.deprecation for name, field in parameters.items() if field.deprecation}
        return OperationDeprecations(self.path, self.deprecation, announced) if announced or self.deprecation else None

    async def respond(self, services: Services, request: web.Request) -> web.Response:
        """Take a request through all steps, within the deadline.

        The admission slot is released before the response is written, so a slow reader holds no slot.
        """
        timer = Timer()
        observation = CURRENT_OBSERVATION.get()
        observation.timer = timer
        deprecated = self.deprecations.announce(request) if self.deprecations else {}
        seconds = services.settings.deadline_seconds + self.extra_seconds
        async with asyncio.timeout(seconds):
            key = await self._require_key(services, request, self._authenticated(request, services))
            observation.key_id, observation.tier = key.key_id, services.limiter.tier(key) or NO_LABEL
            request = await self._adapted(request, key)
            services.deprecation_log.log_first_use(key.key_id, deprecated)
            await services.sends.wait_for_room(key.key_id)
            timer.record(Layer.AUTH)
            async with services.admission.lane(self.lane).slot(key.key_id) as request[ADMISSION_SLOT]:
                timer.record(Layer.TURN)
                response = await self._respond_admitted(services, request, timer, key)
        self._record_timing(services, response, timer)
        tolerates = services.settings.tolerate_unknown or observation.is_compatible
        if tolerates and (ignored := unknown_parameters(request, self.schema)):
            response.headers.add("Warning", f'299 - "Unknown parameters were ignored: {len(ignored)}"')
        return response

    async def _respond_admitted(
        self, services: Services, request: web.Request, timer: Timer, key: ApiKey
    ) -> web.Response:
        response: web.Response | None = None
        key = await self._require_key(services, request, confirm(key, services.keys))
        try:
            async with admit(services.limiter, request, key):
                timer.record(Layer.AUTH)
                response = await self._handle(services, request, timer, key)
                response = await encode_response(request, response, services.compression_cache)
                timer.record(Layer.ENCODE)
                if isinstance(response.body, BufferListPayload):
                    await services.sends.wait_for_room(key.key_id, response.body.size or 0)
            # The rest of a rate count that ran alongside the search.
            timer.record(Layer.AUTH)
            if response.status == HTTPStatus.NOT_MODIFIED and has_sent_tag(request, response):
                await refund_request(services.limiter, request, key)
            request[REQUEST_AUDIT].finish(request, response)
        except BaseException:
            if response is not None and isinstance(response.body, Payload):
                # It will not be sent, and a stream holds a slot.
                await response.body.close()
            raise
        return response

    async def _handle(self, services: Services, request: web.Request, timer: Timer, key: ApiKey) -> web.Response:
        response = await self.handler(await self._accept(services, request, timer, key))
        timer.record(Layer.SPLICE)
        if isinstance(response.body, BufferListPayload):
            CURRENT_OBSERVATION.get().rows = count_records(response.body.buffers)
        return response

    def _record_timing(self, services: Services, response: web.Response, timer: Timer) -> None:
        """Report the time of each layer: so far to the client, if enabled, and with the write to the metrics."""
        if services.settings.server_timing:
            response.headers["Server-Timing"] = timer.header()

        def on_sent() -> None:
            timer.record(Layer.WRITE)
            services.timings.add(self.path, timer)

        if isinstance(response.body, BufferListPayload):
            response.body.on_sent = on_sent
        else:  # 304: there is no body to write
            services.timings.add(self.path, timer)

    async def _require_key(self, services: Services, request: web.Request, authentication: Awaitable[ApiKey]) -> ApiKey:
        try:
            return await authentication
        except Unauthorized:
            # Only on failure: a valid key is never refused because of other clients at its address.
            services.auth_failures.count(client_address(request, services.trusted_proxies))
            raise

    async def _authenticated(self, request: web.Request, services: Services) -> ApiKey:
        return await authenticate(request, services.keys, services.admission.lane(RequestKind.STRANGER))

    async def _adapted(self, request: web.Request, key: ApiKey) -> web.Request:
        return await adapt_request(request, key, self.schema)

    async def _accept(self, services: Services, request: web.Request, timer: Timer, key: ApiKey) -> RequestContext:
        is_compatible = CURRENT_OBSERVATION.get().is_compatible
        tolerates = services.settings.tolerate_unknown or is_compatible
        parameters = await parse_query(request, self.schema, tolerate_unknown=tolerates)
        if withheld := withheld_groups(key.fields):
            reject_guarded_parameters(self.schema, parameters, withheld)
        directory = await services.directory.get()
        scope = resolve_scope(key, directory, parameters.get(COMPANY_PARAMETER), parameters.get(PARENT_PARAMETER))
        path, url = dict(request.match_info), request.rel_url
        audit = request[REQUEST_AUDIT] = services.audit.open(key.key_id, is_head=request.method == "HEAD")
        return RequestContext(
            services,
            timer,
            scope,
            directory,
            self.schema,
            parameters,
            path,
            url,
            request.headers,
            withheld,
            request[ADMISSION_SLOT],
            key.key_id,
            audit,
            is_compatible,
            display=key.display,
        )
