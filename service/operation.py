"""One operation: a path, its parameters and its handler, and the steps of a request through it.

HTTP -> key -> admission -> limits -> parameters -> scope -> handler (query, Elasticsearch, projection) -> bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

from aiohttp import web
from aiohttp.payload import Payload
from marshmallow import Schema

from service.audit.reads import REQUEST_AUDIT
from service.compatible import adapt_request
from service.errors import Unauthorized
from service.http.requests import client_address
from service.http.responses import BufferListPayload, count_records, encode_response, has_sent_tag
from service.keys.api_key import ApiKey
from service.keys.authentication import authenticate, confirm, reject_guarded_parameters, withheld_groups
from service.limits.admission import ADMISSION_SLOT, RequestKind
from service.limits.rates import admit, refund_request
from service.parameters.parser import parse_query, unknown_parameters
from service.request_context import RequestContext
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER, resolve_scope
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL, Layer, Timer


@dataclass(frozen=True)
class Operation:
    """A GET operation.

    `kind` chooses its admission lane. `extra_seconds` extends the deadline of an operation that may wait before it
    responds.
    """

    path: str
    schema: Schema
    handler: Callable[[RequestContext], Awaitable[web.Response]]
    kind: RequestKind | None = None
    extra_seconds: float = 0.0

    @cached_property
    def lane(self) -> RequestKind:
        """The admission lane; by default a path with an identifier is a show, any other a page."""
        return self.kind or (RequestKind.SHOW if "{" in self.path else RequestKind.PAGE)

    async def respond(self, services: Services, request: web.Request) -> web.Response:
        """Take a request through all steps, within the deadline.

        The admission slot is released before the response is written, so a slow reader holds no slot.
        """
        timer = Timer()
        observation = CURRENT_OBSERVATION.get()
        observation.timer = timer
        seconds = services.settings.deadline_seconds + self.extra_seconds
        async with asyncio.timeout(seconds):
            key = await self._require_key(services, request, self._authenticated(request, services))
            observation.key_id, observation.tier = key.key_id, services.limiter.tier(key) or NO_LABEL
            request = await self._adapted(request, key)
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
        if isinstance(body := response.body, BufferListPayload):
            CURRENT_OBSERVATION.get().rows = count_records(body.buffers) if body.records is None else body.records
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
        is_head = request.method == "HEAD"
        audit = request[REQUEST_AUDIT] = services.audit.open(key.key_id, is_head=is_head)
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
            is_head=is_head,
            display=key.display,
        )
