"""An accepted request, as handlers read it, and how far its consumer has read with it, for the console."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web
from marshmallow import Schema
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from cluster.control_index import Mark
from mappings.fields import View
from mappings.resource import Resource
from service.http.responses import JsonBytes
from service.limits.admission import LARGE_PAGE_RECORDS, AdmissionSlot, RequestKind
from service.limits.rates import Charge
from service.projection import Variant
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER, CompanyDirectory, Scope, Visibility
from service.search.placement import OneShard, ServedShards, shards_of_request
from service.search.query import Clause, Selection
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION, FeedPage, Layer, Timer

Result = TypeVar("Result")

# The parameter that chooses the spelling of the response's keys.
UNDERSCORE_PARAMETER = "underscore_response"


class Sent(Protocol):
    """Notes what one request sends."""

    def searches(self, resource: Resource, mark: Mark | None) -> None:
        """Note the mark that the next search is at least as new as."""

    def ends(self) -> list[int] | None:
        """Return a list for the positions after records, which `hits` needs; None if it does not."""

    def hits(self, resource: Resource, response: bytes, ends: list[int] | None, count: int) -> None:
        """Note the first `count` hits of a response of Elasticsearch, sorted by identifier or feed key."""

    def values(self, resource: Resource, values: Sequence[Any]) -> None:
        """Note the doc values of records, as `service.projection` returns them."""

    def names(self, resource: Resource, names: Sequence[str]) -> None:
        """Note records by their identifiers."""

    def events(self, resource: Resource, names: Sequence[str], sequence: int) -> None:
        """Note entries of EntityEvent by the identifiers of their records, read up to a sequence."""

    def changes(self, entries: Sequence[bytes], sequences: Mapping[str, int]) -> None:
        """Note encoded changes, read up to these sequences."""

    def batch(self, resource: Resource, lines: Sequence[JsonBytes]) -> None:
        """Record a batch of a stream at once, by the beginnings of its lines."""

    def absent(self, resource: Resource, name: str) -> None:
        """Record at once that the key requested a record and gets 404."""

    def finish(self, request: web.BaseRequest | None, response: web.Response) -> None:
        """Record what was noted, once the response is decided; None if no client has asked for it."""


class SentObserver:
    """Opens the notes of each request."""

    def open(self, key_id: str, *, is_head: bool) -> Sent:
        """Return the notes of one request of a key."""
        raise NotImplementedError


class ClientRequest(NamedTuple):
    """What the client sent, as handlers read it."""

    path: Mapping[str, str]  # the variables in the path
    url: URL
    headers: MultiMapping[str]
    is_head: bool = False  # whether the response's body is not sent
    origin: str = ""  # for absolute URLs in bodies: the scheme and host of the request


NO_CLIENT = ClientRequest({}, URL(), CIMultiDict())


async def uncounted(_: int) -> None:
    """Count nothing."""


@dataclass(frozen=True)
class RequestContext:
    """An accepted request: its key, parameters and scope.

    `charge` counts the request as several against the rate limit of its key, or raises RateLimited.
    """

    services: Services
    timer: Timer
    scope: Scope
    directory: CompanyDirectory
    schema: Schema
    parameters: dict[str, Any]
    visibility: Visibility
    slot: AdmissionSlot
    key_id: str = ""  # the public id of the key
    sent: Sent | None = None  # notes which records the response sends, for an audit
    is_compatible: bool = False  # whether the key or the request has the compatible profile
    client: ClientRequest = NO_CLIENT
    charge: Charge = uncounted

    def variant(self, resource: Resource, view: View, *, all_flags: bool = False) -> Variant:
        """Return the variant to send records in, by the request's flags and spelling and the key's permissions.

        Every operation gets its variant here, so that none can forget the fields that a key may not see.
        """
        flags = frozenset(resource.flags[view] if all_flags else filter(self.parameters.get, resource.flags[view]))
        underscored = self.parameters.get(UNDERSCORE_PARAMETER, False)
        hides_addresses = self.visibility.hides_addresses(resource)
        return Variant(resource, view, flags, underscored, self.visibility.withheld, hides_addresses)

    def selection(self, resource: Resource, clauses: tuple[Clause, ...] = ()) -> Selection:
        """Return the records in the request's scope that the key may show; every operation on listings uses this."""
        return Selection(resource, self.scope, (*self.visibility.clauses(resource), *clauses))

    def exact_names(self, resource: Resource) -> frozenset[str]:
        """Return the members of records that this request gets with the source's fraction."""
        return resource.exact_names if self.is_compatible else frozenset()

    async def search(
        self, resource: Resource, body: dict[str, object], sequence: int | None = None, only: OneShard | None = None
    ) -> bytes:
        """Search a resource's live generation, at least as new as the mark that this request can have read.

        `sequence` is that of another mark, at which the search sees records that change their shard. With `only`, that
        shard is asked; raises NoLongerServed after a swap.
        """
        self.timer.record(Layer.QUERY)
        if body.get("size", 0) > LARGE_PAGE_RECORDS:  # type: ignore[operator]
            await self._take_turn_of_large_pages()
        index = self.services.indices[resource]
        alias, mark = index.alias, index.mark.current
        if self.sent is not None:
            self.sent.searches(resource, mark)
        shard_scope = await shards_of_request(self, resource, sequence)
        response = await self.services.engine.search(alias, body, mark, shard_scope._replace(only=only))
        self.timer.record(Layer.ELASTICSEARCH)
        return response

    def served_shards(self, resource: Resource) -> ServedShards | None:
        """Return the shards of the live index, None if it has one."""
        return self.services.engine.shards.get(self.services.indices[resource].alias)

    async def repeat_after_swap(
        self, resource: Resource, attempt: Callable[[ServedShards | None], Awaitable[Result]]
    ) -> Result:
        """Return what `attempt` returns for the shards of the live index; again if it raises NoLongerServed."""
        return await self.services.engine.shards.repeat(self.services.indices[resource].alias, attempt)

    def require(self, resource: Resource, fields: Iterable[str]) -> None:
        """Raise RebuildDue for search fields that are read from documents and that the live index lacks."""
        self.services.engine.refuse_missing(self.services.indices[resource].alias, fields)

    async def _take_turn_of_large_pages(self) -> None:
        limits = self.services.limits.admission.limits
        await self.slot.exchange(limits[RequestKind.PAGE], limits[RequestKind.LARGE_PAGE])
        self.timer.record(Layer.TURN)

    def note_absent(self, resource: Resource, identifier: str) -> None:
        """Note for the audit that the record is asked for and gets 404."""
        if self.sent is not None:
            self.sent.absent(resource, identifier)

    def mark(self, resource: Resource) -> Mark | None:
        return self.services.indices[resource].mark.current


# How `brokerage-feed pull`, and programs with its library, name themselves.
_CLIENT = "brokerage-feed/"


class ReadSpan(NamedTuple):
    """What was read, from the cursor `after` to `last`.

    Who reads to the end has everything up to the `watermark` that came with the first page, in seconds since 1970.
    """

    after: str | None
    last: str | None
    watermark: int | None = None
    is_final: bool = True


def observe(call: RequestContext, method: str, resources: Iterable[Resource], span: ReadSpan) -> None:
    sent = call.parameters
    is_pull = call.client.headers.get("User-Agent", "").startswith(_CLIENT)
    CURRENT_OBSERVATION.get().page = FeedPage(
        method=f"pull: {method}" if is_pull else method,
        resource=", ".join(resource.alias for resource in resources),
        company=sent.get(COMPANY_PARAMETER) or sent.get(PARENT_PARAMETER) or "",
        after=span.after,
        last=span.last,
        updated_since=None,
        is_final=span.is_final,
        watermark=span.watermark,
    )


def latest_watermark(call: RequestContext, resources: Iterable[Resource]) -> int | None:
    """Return the watermark up to which a read that begins now has everything, None before the first load."""
    marks = map(call.mark, resources)
    return max((mark.clock // 1000 for mark in marks if mark is not None), default=None)


def observe_end(last: str | None) -> None:
    """Note that a stream was sent to its end."""
    observation = CURRENT_OBSERVATION.get()
    if observation.page is not None:
        observation.page = msgspec.structs.replace(observation.page, last=last, is_final=True)
