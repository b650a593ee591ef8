"""What is sent next to a subscription: the response that a request of its key would get, read within this process.

The operations are those that are installed, found by their paths as a client finds them.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import web

from cluster.control_index import HEAD_ID
from mappings import RESOURCES
from service import token
from service.capabilities import installed_capabilities
from service.deliver.subscriptions import NOW, Body, Subscription
from service.errors import ApiError
from service.feed.entries import FeedView
from service.http.responses import BufferListPayload
from service.keys.api_key import ApiKey
from service.operation import Operation
from service.request_context import RequestContext
from service.search.cached_value import CacheAges, CachedValue
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION

_PATHS = {Body.CHANGES: "/changes", Body.EVENTS: "/reso/EntityEvent"}
_WAIT_SECONDS = 25


@dataclass(frozen=True)
class Page:
    """A page to deliver: `content` has `count` changes after `since`, up to `reached`."""

    content: bytes
    count: int
    since: str
    reached: str
    at_end: bool  # whether it reaches the end of what is published
    call: RequestContext
    response: web.Response

    def is_withdrawn(self) -> bool:
        """Return whether the key may no longer read all of it."""
        return CURRENT_OBSERVATION.get().is_withdrawn()

    def note_sent(self) -> None:
        """Record in the audit that the key is sent it."""
        if self.call.sent is not None:
            self.call.sent.finish(None, self.response)


class PageReader(Protocol):
    async def next_page(self, key: ApiKey, subscription: Subscription, since: str, *, waits: bool) -> Page:
        """Return the page after a position, empty if there is none yet, or none after a wait; raise ApiError."""


def find_operation(body: Body, without: tuple[str, ...] = ()) -> Operation | None:
    """Return the operation that a kind of body is read from, None if its capability is left out."""
    operations = (each for capability in installed_capabilities(without) for each in capability.operations)
    return next((operation for operation in operations if operation.path == _PATHS[body]), None)


def open_reader(services: Services, body: Body) -> PageReader:
    """Return the reader of a kind of body; raise ApiError if its capability is left out."""
    if (operation := find_operation(body, services.settings.without)) is None:
        raise ApiError(f"{_PATHS[body]} is left out by BROKERAGE_WITHOUT.")
    return ChangesReader(services, operation) if body is Body.CHANGES else EventsReader(services, operation)


async def _respond(operation: Operation, call: RequestContext) -> tuple[web.Response, bytes]:
    response = await operation.handler(call)
    if not isinstance(response.body, BufferListPayload):
        raise TypeError(f"{operation.path} has no body of buffers")
    return response, response.body.join()


class _ChangesBody(msgspec.Struct):
    changes: list[msgspec.Raw]
    next: str
    at_end: bool


_decode_changes = msgspec.json.Decoder(_ChangesBody).decode
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


@dataclass(frozen=True)
class ChangesReader:
    """Reads pages of `/changes`. Those who wait for one share a poll of the watermarks."""

    services: Services
    operation: Operation

    async def next_page(self, key: ApiKey, subscription: Subscription, since: str, *, waits: bool) -> Page:
        query = subscription.parameters() | ({"wait": str(_WAIT_SECONDS)} if waits else {})
        call = await self.operation.accept_for(self.services, key, query)
        if since == NOW:
            positions = {_BY_ALIAS[alias]: position for alias, position in subscription.positions.items()}
            since = await self.services.tokens.seal(token.encode_token(FeedView(call).fingerprint, positions))
        call.parameters["since"] = [since] if since else None
        response, content = await _respond(self.operation, call)
        body = _decode_changes(content)
        return Page(content, len(body.changes), since, body.next, body.at_end, call, response)


class _Event(msgspec.Struct):
    number: int = msgspec.field(name="EntityEventSequence")


class _EventsBody(msgspec.Struct):
    value: msgspec.Raw
    next_link: str = msgspec.field(name="@odata.nextLink", default="")


_decode_events = msgspec.json.Decoder(_EventsBody).decode
_decode_numbers = msgspec.json.Decoder(list[_Event]).decode
_POLL_SECONDS = 0.5
# The ledger that the operation reads may be as much older than the one that was polled.
_SETTLE_SECONDS = 1.5
# RCP-28; the addresses of records are left out, since no request says by which name the service is reached.
_EVENT_PROPERTIES = "EntityEventSequence,ResourceName,ResourceRecordKey"
_RCP_28 = b'{"@reso.context":"urn:reso:metadata:2.0:resource:entityevent","value":%b}'


class EventsReader:
    """Reads pages of EntityEvent. A position is the number of an event."""

    def __init__(self, services: Services, operation: Operation) -> None:
        self._services, self._operation = services, operation
        self._end = CachedValue(self._read_end, CacheAges(_POLL_SECONDS, 2 * _POLL_SECONDS))
        self._seen = -1  # the end when everything up to it had been read

    async def next_page(self, key: ApiKey, _: Subscription, since: str, *, waits: bool) -> Page:
        end, deadline = await self._end.get(), time.monotonic() + _WAIT_SECONDS
        while waits and end == self._seen and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            end = await self._end.get()
        if waits and end != self._seen:
            await asyncio.sleep(_SETTLE_SECONDS)
        query = {"$filter": f"EntityEventSequence gt {since or 0}", "$select": _EVENT_PROPERTIES}
        call = await self._operation.accept_for(self._services, key, query)
        response, content = await _respond(self._operation, call)
        body = _decode_events(content)
        numbers = _decode_numbers(body.value)
        reached = str(numbers[-1].number) if numbers else since
        at_end = not body.next_link
        self._seen = end if at_end else -1
        return Page(_RCP_28 % bytes(body.value), len(numbers), since, reached, at_end, call, response)

    async def _read_end(self) -> int:
        head = await self._services.engine.get_document(self._services.connection.control_index, HEAD_ID)
        return int((head or {}).get("end", 0))
