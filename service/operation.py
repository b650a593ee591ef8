"""One operation: a path, its parameters and its handler, and the steps of a request through it.

HTTP -> key -> admission -> limits -> parameters -> scope -> handler (query, Elasticsearch, projection) -> bytes.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.payload import Payload
from marshmallow import Schema
from yarl import URL

from service.errors import Unauthorized
from service.http.requests import RequestAdapter, client_address, request_origin
from service.http.responses import BufferListPayload, CompressionCache, encode_response, has_sent_tag
from service.keys.api_key import ApiKey
from service.keys.authentication import Credentials, Proof, authenticate, confirm, reject_guarded_parameters
from service.keys.ring import KeyRing
from service.limits.admission import AdmissionSlot, RequestKind
from service.limits.rates import Charge, admit, refund_request
from service.parameters import parse_query, parse_sent, unknown_parameters
from service.request_context import NO_CLIENT, ClientRequest, RequestContext, SentObserver, uncounted
from service.scope import (
    COMPANY_PARAMETER,
    PARENT_PARAMETER,
    CompanyDirectory,
    Scope,
    Visibility,
    allowed_scope,
    resolve_scope,
)
from service.search.cached_value import CachedValue
from service.services import SERVICES, Services
from service.telemetry.observation import CURRENT_OBSERVATION, NO_LABEL, Layer, Timer
from service.token import TokenVault

_AS_IT_IS = RequestAdapter()
# Returns the scheme and host of a request, for absolute URLs in bodies.
ReadOrigin = Callable[[], str]


@dataclass(frozen=True)
class Operation:
    """A GET operation.

    `kind` chooses its concurrency limit. `extra_seconds` extends the deadline of an operation that may wait before it
    responds. `check` may refuse a request before its parameters are read, `refine` afterwards; requests that are not
    `adaptable` are never those of another API. `read_proof` returns what a link proves that is followed without a key.
    """

    path: str
    schema: Schema
    handler: Callable[[RequestContext], Awaitable[web.Response]]
    kind: RequestKind | None = None
    extra_seconds: float = 0.0
    credentials: Credentials = Credentials.KEY
    adaptable: bool = True
    check: Callable[[web.Request, Schema], None] | None = None
    refine: Callable[[RequestContext, ReadOrigin], RequestContext] | None = None
    read_proof: Callable[[web.Request, TokenVault], Awaitable[Proof | None]] | None = None

    @cached_property
    def request_kind(self) -> RequestKind:
        """The concurrency limit of its requests; by default a path with an identifier is a show, any other a page."""
        return self.kind or (RequestKind.SHOW if "{" in self.path else RequestKind.PAGE)

    async def respond(self, route: str, request: web.Request) -> web.Response:
        """Take a request through all steps, within the deadline; each of them may refuse it.

        The admission slot is released before the response is written, so a slow reader holds no slot. `route` is the
        template of the request's path.
        """
        services: Services = request.app[SERVICES]
        timer, seen = Timer(), CURRENT_OBSERVATION.get()
        seen.timer, seen.route = timer, route
        adapter = services.state[RequestAdapter] if self.adaptable else _AS_IT_IS
        response: web.Response | None = None
        try:
            async with asyncio.timeout(services.settings.deadline_seconds + self.extra_seconds):  # 504
                unknown_keys = services.limits.admission.limits[RequestKind.UNKNOWN_KEY]
                proof = None if self.read_proof is None else await self.read_proof(request, services.tokens)
                accepted = proof or self.credentials
                key = await authenticate(request, services.keys, unknown_keys, adapter, accepted)  # 401, 429
                seen.key_id, seen.tier = key.key_id, key.tier if key.tier in services.limits.rates.tiers else NO_LABEL
                request = await adapter.adapt(request, key, self.schema)  # 400, 404
                if services.limits.unread.unsent_bytes:
                    await services.limits.unread.wait_for_room(key.key_id)  # 429
                timer.record(Layer.AUTH)
                async with services.limits.admission.limits[self.request_kind].slot(key.key_id) as slot:  # 503
                    timer.record(Layer.TURN)
                    key = await confirm(key, services.keys)  # 401
                    async with admit(services.limits.rates, request, key) as charge:  # 429
                        timer.record(Layer.AUTH)
                        call, response = await self._handle(request, key, slot, charge, timer)
                        timer.record(Layer.SPLICE)
                        response = await encode_response(request, response, services.state[CompressionCache])  # 304
                        timer.record(Layer.ENCODE)
                        if services.limits.unread.unsent_bytes and isinstance(response.body, BufferListPayload):
                            await services.limits.unread.wait_for_room(key.key_id, response.body.size or 0)  # 429
                    if services.limits.rates.is_shared:
                        timer.record(Layer.AUTH)  # the rest of a count in Redis, which ran alongside the search
                    if response.status == HTTPStatus.NOT_MODIFIED and has_sent_tag(request, response):
                        await refund_request(services.limits.rates, request, key)
                    if call.sent is not None:
                        call.sent.finish(request, response)
        except Unauthorized:
            # Only on failure: a valid key is never refused because of other clients at its address.
            services.limits.auth_failures.count(client_address(request, services.settings.proxies))
            raise
        except BaseException:
            if response is not None:
                await _discard(response)
            raise
        self._time_write(services, response, timer)
        if seen.ignored:
            response.headers.add("Warning", f'299 - "Unknown parameters were ignored: {seen.ignored}"')
        return response

    async def _handle(
        self, request: web.Request, key: ApiKey, slot: AdmissionSlot, charge: Charge, timer: Timer
    ) -> tuple[RequestContext, web.Response]:
        """Accept a request and run its handler; again if the key may read less afterwards than when it was accepted.

        So the response to a request that waited is what the key may read now, or the refusal of a request made now.
        """
        while True:
            call = await self._accept(request, key, slot, charge, timer)  # 400, 403
            response = await self.handler(call)  # 400, 404, 429, 503
            if not CURRENT_OBSERVATION.get().is_withdrawn():
                return call, response
            await _discard(response)
            key = await confirm(key, request.app[SERVICES].keys)  # 401

    async def _accept(
        self, request: web.Request, key: ApiKey, slot: AdmissionSlot, charge: Charge, timer: Timer
    ) -> RequestContext:
        """Return the request as handlers read it; raise ApiError for its parameters or its scope."""
        services: Services = request.app[SERVICES]
        if self.check is not None:
            self.check(request, self.schema)
        seen, tolerates = CURRENT_OBSERVATION.get(), services.settings.tolerate_unknown
        if tolerates:
            seen.ignored = seen.ignored or len(unknown_parameters(request, self.schema))
        parsing = parse_query(request, self.schema, tolerate_unknown=tolerates)
        is_head = request.method == "HEAD"
        client = ClientRequest(dict(request.match_info), request.rel_url, request.headers, is_head)
        call = await self._permit(services, key, parsing, slot, client, timer, charge)
        if self.refine is None:
            return call
        return self.refine(call, partial(request_origin, request, services.settings.proxies))

    async def accept_for(self, services: Services, key: ApiKey, query: Mapping[str, str]) -> RequestContext:
        """Return the request of a key that no client has sent, for `handler`: what is sent unasked is what it may read.

        Raises what a client would get. It takes no slot and nothing of the key's rate limit.
        """
        parsing = parse_sent(query, self.schema)
        slot = services.limits.admission.limits[self.request_kind].slot(key.key_id)
        client = NO_CLIENT._replace(url=URL.build(path=self.path, query=query))
        call = await self._permit(services, key, parsing, slot, client)
        return call if self.refine is None else self.refine(call, str)

    async def _permit(  # noqa: PLR0913, PLR0917 - what a request consists of
        self,
        services: Services,
        key: ApiKey,
        parsing: Awaitable[dict[str, Any]],
        slot: AdmissionSlot,
        client: ClientRequest,
        timer: Timer | None = None,
        charge: Charge = uncounted,
    ) -> RequestContext:
        """Return the context of what a key may read of what it asks for; raise ApiError."""
        parameters, seen = await parsing, CURRENT_OBSERVATION.get()
        directory = await services.directory.get()
        visibility = Visibility.of(key)
        if visibility.withheld:
            reject_guarded_parameters(self.schema, parameters, visibility.withheld)
        observer: SentObserver | None = services.state.get(SentObserver)
        scope = resolve_scope(key, directory, parameters.get(COMPANY_PARAMETER), parameters.get(PARENT_PARAMETER))
        seen.is_withdrawn = Access(services.keys, services.directory, key, scope, visibility).is_withdrawn
        return RequestContext(
            services=services,
            timer=timer or Timer(),
            scope=scope,
            directory=directory,
            schema=self.schema,
            parameters=parameters,
            visibility=visibility,
            slot=slot,
            key_id=key.key_id,
            sent=None if observer is None else observer.open(key.key_id, is_head=client.is_head),
            is_compatible=seen.is_compatible,
            client=client,
            charge=charge,
        )

    def _time_write(self, services: Services, response: web.Response, timer: Timer) -> None:
        """Report the time of each layer: so far to the client, if enabled, and with the write to the metrics."""
        if services.settings.server_timing:
            response.headers["Server-Timing"] = timer.header()

        def on_sent() -> None:
            timer.record(Layer.WRITE)
            services.totals.timings.add(self.path, timer)

        if isinstance(response.body, BufferListPayload):
            CURRENT_OBSERVATION.get().rows = response.body.records
            response.body.on_sent = on_sent
        else:  # 304: there is no body to write
            services.totals.timings.add(self.path, timer)


async def _discard(response: web.Response) -> None:
    """Release what a response holds that will not be sent, such as the slot of a stream."""
    if isinstance(response.body, Payload):
        await response.body.close()


class Access:
    """What a request was accepted for, compared with what its key may read now. All of it is in memory.

    A response can take long: a long poll waits, and clients read slowly. `Operation.respond` asks once more before it
    sends what it has waited for; while a response is being sent, `service.http.send_monitor` asks of every connection.
    """

    __slots__ = ("_directory", "_directory_seen", "_key", "_keys", "_scope", "_visibility")

    def __init__(
        self,
        keys: KeyRing,
        directory: CachedValue[CompanyDirectory],
        key: ApiKey,
        scope: Scope,
        visibility: Visibility,
    ) -> None:
        """Compare what `key` gave the request with what it gives later."""
        self._keys, self._directory = keys, directory
        self._key, self._directory_seen = key, directory.current
        self._scope, self._visibility = scope, visibility

    def is_withdrawn(self) -> bool:
        """Return whether the key is no longer valid, or may no longer read all that the request was accepted for.

        A key that may read more, or whose record was read again, keeps its access.
        """
        key, directory = self._keys.recall(self._key.key_id), self._directory.current
        if key is None or directory is None or not key.continues(self._key, dt.datetime.now(dt.UTC)):
            return True
        if key is self._key and directory is self._directory_seen:
            return False
        if not allowed_scope(key, directory).includes(self._scope) or not Visibility.of(key).includes(self._visibility):
            return True
        self._key, self._directory_seen = key, directory
        return False
