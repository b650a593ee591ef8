"""`/snapshot/{resource}`: all records of a scope in one response."""

import asyncio
import re
import struct
from binascii import hexlify
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from http import HTTPStatus
from typing import NamedTuple

import msgspec
import orjson
from aiohttp import web

from cluster.control_index import Mark
from mappings import RESOURCES
from mappings.indices import schema_fingerprint
from mappings.resource import Resource
from mappings.stored_document import RECORD_DELIMITER, Digest, exact_values, feed_key, feed_key_range
from mappings.visibility import ShownContent
from service import token
from service.errors import ApiError, EngineUnavailable
from service.feed.entries import SOURCE_KEY, FeedView, decode_hits, digest_body, mark_of_copy, parse_digest
from service.feed.parameters import FeedFilters, FeedKeyParameter, resource_from_path
from service.feed.streaming import StreamedResponse, StreamPayload, encode_exact, encode_records, iso_timestamp
from service.http.requests import ContentCoding, negotiate_coding
from service.http.responses import OPERATION_HEADERS, JsonBytes
from service.limits.admission import AdmissionSlot, RequestKind
from service.operation import Operation
from service.projection import Variant
from service.request_context import ReadSpan, RequestContext, observe, observe_end
from service.search.engine import SearchEngine
from service.search.placement import EVERYTHING, ServedShards, ShardScope, gone, shards_of_request
from service.search.query import Body, Clause, Selection, scope_clauses, term
from service.search.responses import status_failure
from service.telemetry.observation import CURRENT_OBSERVATION
from service.token import FeedPosition

# The PIT expires this long after its last search.
KEEP_ALIVE_SECONDS = 120
# While a client reads slowly there is none, so a search for nothing is sent this often.
_RENEWAL_SECONDS = 40.0
_NOTHING: dict[str, object] = {"size": 0, "terminate_after": 1, "track_total_hits": False}
# One page keeps an Elasticsearch core busy; a second one keeps it busy while the previous page is sent.
_PREFETCHED_PAGES = 2
# The bytes before and after the sort values of the last hit.
_SORT_KEY, _HITS_END = b',"sort":', b"}]}}"
# Each response begins with the current PIT id.
_PIT_ID = re.compile(rb'\{"pit_id":"([^"]+)"')


class PointInTime:
    """An open point in time of a resource's index."""

    def __init__(self, engine: SearchEngine, pit_id: str, served: ServedShards | None, shard_scope: ShardScope) -> None:
        """Use an open PIT of an index with some `served` shards, None for one."""
        self._engine = engine
        self.pit_id = pit_id
        self._served = served
        self._shard_scope = shard_scope

    async def digest(self, selection: Selection, content: ShownContent, after: str) -> Digest:
        """Return the digest of the selected records after a feed key; empty: of all."""
        body = digest_body(_query_after(selection, after), content)
        return parse_digest(orjson.loads(await self._search(body)))

    async def pages(self, selection: Selection, after: str, count: int, size: int) -> AsyncGenerator[bytes]:
        """Yield the responses with the next `count` records after a feed key, in order; pages are prefetched."""
        pending = deque[asyncio.Task[bytes]]()
        try:
            for remaining in range(count, 0, -size):
                pending.append(asyncio.create_task(self._page(selection, after, size)))
                if remaining > size:
                    after = await self._page_end(selection, after, size)
                if len(pending) > _PREFETCHED_PAGES:
                    yield await pending.popleft()
            while pending:
                yield await pending.popleft()
        finally:
            for page in pending:
                page.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def renew(self) -> None:
        """Keep the PIT open, until it is cancelled."""
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(ApiError):
                await self._search(_NOTHING)

    async def close(self) -> None:
        """Close the PIT, which would also expire by itself."""
        with suppress(ApiError):
            await self._engine.request("DELETE", "/_pit", orjson.dumps({"id": self.pit_id}))

    async def _page(self, selection: Selection, after: str, size: int) -> bytes:
        return await self._search(_sorted_query(selection, after) | {"size": size})

    async def _page_end(self, selection: Selection, after: str, size: int) -> str:
        """Return the feed key of the last record of a page without loading the records before it."""
        only_the_last = {"from": size - 1, "size": 1, "_source": False}
        return _last_feed_key(await self._search(_sorted_query(selection, after) | only_the_last))

    async def _search(self, body: Body) -> bytes:
        if self._served is not None and "query" in body:
            body = self._served.visible(body, self._shard_scope)
        request = body | {"pit": {"id": self.pit_id, "keep_alive": f"{KEEP_ALIVE_SECONDS}s"}}
        response = await self._engine.search_complete("", orjson.dumps(request))
        if (match := _PIT_ID.match(response)) is not None:
            self.pit_id = match[1].decode()
        return response


def _sorted_query(selection: Selection, after: str) -> Body:
    return {"query": _query_after(selection, after), "sort": ["feed_key"], "track_total_hits": False}


def _last_feed_key(response: bytes) -> str:
    """Return the feed key of the last record of a non-empty response."""
    values = response[response.rfind(_SORT_KEY) + len(_SORT_KEY) : -len(_HITS_END)]
    return str(orjson.loads(values)[0])


def _query_after(selection: Selection, after: str) -> Clause:
    """Return the query for the selected records after a feed key, in index sort order."""
    scope = selection.scope
    if (single := scope.single_company) is not None:
        bounds = feed_key_range(single)
        clauses: list[Clause] = [{"range": {"feed_key": bounds | {"gt": max(bounds["gt"], after)}}}]
    else:
        clauses = scope_clauses(scope)
        if after:
            clauses.append({"range": {"feed_key": {"gt": after}}})
    return {"bool": {"filter": [*clauses, term("deleted", value=False), *selection.clauses]}}


async def _open(engine: SearchEngine, index: str, shard_scope: ShardScope, served: ServedShards | None) -> PointInTime:
    target, routing = (index, "") if served is None else (served.target, served.routing(shard_scope))
    status, response = await engine.request("POST", f"/{target}/_pit?keep_alive={KEEP_ALIVE_SECONDS}s{routing}", None)
    if status == HTTPStatus.NOT_FOUND and served is not None:
        raise gone(response)
    if status != HTTPStatus.OK:
        raise status_failure(status, response, None)
    point = PointInTime(engine, orjson.loads(response)["id"], served, shard_scope)
    if served is None:
        try:
            await engine.shards.checked(index, response)
        except BaseException:
            await point.close()
            raise
    return point


@asynccontextmanager
async def open_point_in_time(
    engine: SearchEngine, index: str, shard_scope: ShardScope = EVERYTHING
) -> AsyncIterator[PointInTime]:
    """Open a PIT of an index and close it at the end; raise ApiError."""
    engine.require_available(index)
    point = await engine.shards.repeat(index, partial(_open, engine, index, shard_scope))
    renewal = asyncio.create_task(point.renew())
    try:
        yield point
    finally:
        renewal.cancel()
        await point.close()


# Strings with an escape, and keys in another order, are left to the decoder.
_RECORD_PREFIX = (
    rb'"_source":\{"id":"([^"\\]*)","feed_key":"[^"\\]*","company":"([^"\\]*)",%b"%b":(-?\d+),'
    rb'[^\t]*,"clock":(\d+),"sequence":\d+,"record":\t'
)
_pack_int64 = struct.Struct(">q").pack
_LINE_PREFIX = b'{"company":"%b","id":"%b","sequence":%b,"time":"%b","content":"%b"%b,"record":'
_decode_exact = msgspec.json.Decoder(dict[str, float]).decode


class SnapshotPage(NamedTuple):
    """The encoded lines of a page, how each begins, up to its identifier at least, and the last feed key."""

    beginnings: list[JsonBytes]
    last_feed_key: str
    encoded: bytes


def encode_page(response: bytes | bytearray, variant: Variant, content: ShownContent) -> SnapshotPage:
    """Return the lines for the records of a response.

    The cost per record limits a snapshot: decoding and encoding the headers took four times as long.
    """
    matches, records, is_complete = _match_records(response, _record_prefix(content))
    if not is_complete:
        return _decode_page(response, variant, content)
    parts: list[JsonBytes] = []
    for match, record in zip(matches, variant.encode(records), strict=True):
        identifier, company, content_hash, clock = match.groups()
        exact = exact_values(match[0])
        if content.address and (hidden := _content_without_address(content).search(match[0])) is not None:
            content_hash = hidden[1]
        values = (
            company,
            identifier,
            clock,
            iso_timestamp(int(clock)),
            hexlify(_pack_int64(int(content_hash))),
            encode_exact(_decode_exact(exact), variant) if exact else b"",
        )
        parts += (_LINE_PREFIX % values, record, b"}\n")
    last = feed_key(matches[-1][2].decode(), matches[-1][1].decode()) if matches else ""
    return SnapshotPage(parts[::3], last, b"".join(parts))


@cache
def _record_prefix(content: ShownContent) -> re.Pattern[bytes]:
    # The hash of the whole content is one of the first search fields, the others are the last: search from there.
    before = rb"[^\t]*" if content.hidden else rb"[^\t]*?"
    return re.compile(_RECORD_PREFIX % (before, content.content.encode()))


@cache
def _content_without_address(content: ShownContent) -> re.Pattern[bytes]:
    return re.compile(rb',"%b":(-?\d+)' % content.without_address.content.encode())


def _match_records(
    response: bytes | bytearray, prefix: re.Pattern[bytes]
) -> tuple[list[re.Match[bytes]], list[JsonBytes], bool]:
    """Return the header and bytes of each record, and whether every header matched."""
    matches, records, view = list[re.Match[bytes]](), list[JsonBytes](), memoryview(response)
    find = response.find
    start = find(SOURCE_KEY)
    while start >= 0 and (match := prefix.match(response, start)) is not None:
        end = find(RECORD_DELIMITER, match.end())
        matches.append(match)
        records.append(view[match.end() : end])
        start = find(SOURCE_KEY, end)
    return matches, records, start < 0


def _decode_page(response: bytes | bytearray, variant: Variant, content: ShownContent) -> SnapshotPage:
    """Return the lines by full decoding, for a response with an unexpected layout."""
    hits = decode_hits(response, content)
    headers = [hit.header for hit in hits]
    encoded = encode_records(headers, [hit.record for hit in hits if hit.record is not None], variant, None)
    last = headers[-1].feed_key if headers else ""
    return SnapshotPage([*encoded], last, b"\n".join([*encoded, b""]))


# Records. Three pages of some 3 MB are held at a time; pages of twice the size cost Elasticsearch a tenth less.
PAGE_SIZE = 500


class SnapshotPosition(NamedTuple):
    """The company and identifier of the last line that a client has received."""

    company: str
    identifier: str

    def __str__(self) -> str:
        return feed_key(self.company, self.identifier)


class _FirstLine(msgspec.Struct):
    resource: str
    token: str
    as_of: str
    count: int
    schema: str
    after: str | None


class _LastLine(msgspec.Struct):
    count: int
    digest: str
    last: str | None
    complete: bool = True


_encode = msgspec.json.Encoder().encode


async def stream_snapshot(
    view: FeedView, resource: Resource, mark: Mark | None, after: SnapshotPosition | None
) -> AsyncGenerator[bytes]:
    """Yield the lines of a snapshot, a page at a time; raise ApiError.

    `mark` must be read before the PIT is opened: the snapshot then covers it, and changes continue from its token.
    Without one, nothing was ever loaded: changes begin with the first load.
    """
    if mark is None:
        yield await _encode_first_line(view, resource, None, 0, None if after is None else str(after))
        yield _encode_last_line(Digest(), None)
        observe_end(None)
        return
    call, last, sent = view.call, str(after or ""), 0
    selection = Selection(resource, call.scope, tuple(view.clauses(resource)))
    call.require(resource, view.required_fields(resource))
    if call.sent is not None:
        call.sent.searches(resource, mark)
    shard_scope = await shards_of_request(call, resource, mark.sequence)
    async with open_point_in_time(call.services.engine, call.services.indices[resource].alias, shard_scope) as point:
        digest = await point.digest(selection, view.content(resource), last)
        yield await _encode_first_line(view, resource, mark, digest.count, last or None)
        async for response in point.pages(selection, last, digest.count, PAGE_SIZE):
            page = encode_page(response, view.variant(resource), view.content(resource))
            rows = len(page.beginnings)
            last, sent = page.last_feed_key or last, sent + rows
            CURRENT_OBSERVATION.get().rows += rows
            if call.sent is not None:
                call.sent.batch(resource, page.beginnings)
            # Not held while the client reads.
            del response
            yield page.encoded
    if sent != digest.count:
        raise EngineUnavailable(f"A snapshot of {digest.count} {resource.alias} returned {sent}.")
    yield _encode_last_line(digest, last or None)
    observe_end(last)


async def _encode_first_line(
    view: FeedView, resource: Resource, mark: Mark | None, count: int, after: str | None
) -> bytes:
    contents = token.encode_token(view.fingerprint, {resource: FeedPosition.latest(mark)})
    text = await view.call.services.tokens.seal(contents)
    as_of = iso_timestamp(mark.clock if mark else 0).decode()
    return _encode(_FirstLine(resource.alias, text, as_of, count, schema_fingerprint(resource), after)) + b"\n"


def _encode_last_line(digest: Digest, last: str | None) -> bytes:
    return _encode(_LastLine(digest.count, f"{digest.total:016x}", last)) + b"\n"


_RESOURCE_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


class SnapshotParameters(FeedFilters):
    """Parameters of a snapshot."""

    after = FeedKeyParameter("Resume an interrupted snapshot after this line, as company:id.")


async def take_snapshot(call: RequestContext) -> web.Response:
    """Take a snapshot of a resource.

    All records are lines of JSON, between a head line with the token and a tail line with the digest."""
    resource = resource_from_path(call)
    # Before anything is read: once the response has started, it could only be aborted.
    slot = call.services.limits.admission.limits[RequestKind.SNAPSHOT].slot(call.key_id).hold()
    try:
        return await _start_stream(call, resource, slot)
    except BaseException:
        slot.release()
        raise


async def _start_stream(call: RequestContext, resource: Resource, slot: AdmissionSlot) -> StreamedResponse:
    mark = await mark_of_copy(call, resource)
    sent = call.parameters["after"]
    after = None if sent is None else SnapshotPosition(*sent)
    lines = stream_snapshot(FeedView(call), resource, mark, after)
    span = ReadSpan(after and str(after), None, mark.clock // 1000 if mark else None, is_final=False)
    observe(call, "snapshot", (resource,), span)
    coding = negotiate_coding(call.client.headers)
    encoding = {} if coding is ContentCoding.IDENTITY else {"Content-Encoding": coding}
    first_line = await anext(lines)  # errors before it still get an error status
    body = StreamPayload(first_line, lines, coding, slot)
    return StreamedResponse(body, {**OPERATION_HEADERS, "Cache-Control": "no-store", **encoding})


SNAPSHOT_OPERATIONS = (Operation("/snapshot/{resource}", SnapshotParameters(), take_snapshot, kind=RequestKind.PAGE),)
