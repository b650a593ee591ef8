"""Records of a selection: a page by cursor or by number, all of them, or one by its identifier."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from math import isqrt
from typing import Any, TypeVar

import orjson

from mappings.indices import MAX_RESULT_WINDOW
from mappings.resource import Resource
from mappings.stored_document import BUCKETS, feed_key
from service.errors import InvalidRequest
from service.http.responses import LINK, JsonBytes, json_array, link_header
from service.keys.api_key import mask_keys
from service.projection import Variant, doc_values, encode_timestamps, record_identifier
from service.request_context import RequestContext, Sent
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.search.placement import OneShard, ServedShards, shards_of_records
from service.search.query import Body, Clause, Selection, numbered_body, page_body, walk_body
from service.search.responses import exact_record, extract_exact_records, extract_records, parse_hits, total_hits
from service.telemetry.observation import Layer


@dataclass(frozen=True)
class RecordBatch:
    """Encoded records, the response that they are from, and the positions after each, None without an audit."""

    records: list[JsonBytes]
    response: bytes
    ends: list[int] | None

    def __len__(self) -> int:
        return len(self.records)


def note_records(notes: Sent | None, resource: Resource, batches: Iterable[RecordBatch], count: int) -> None:
    """Note for the audit that the first `count` records of some batches are sent."""
    if notes is None:
        return
    for batch in batches:
        sent = min(len(batch.records), count)
        notes.hits(resource, batch.response, batch.ends, sent)
        count -= sent


Rows = TypeVar("Rows", bound="Sized")


async def rows_in_order(
    call: RequestContext, selection: Selection, body: Body, after: str | None, read: Callable[[bytes, int], Rows]
) -> list[Rows]:
    """Return the rows of each search that a page takes, in the order of the feed keys, after the identifier `after`.

    `read` gets a response and the size of its search. Usually one shard is asked: the next one only if the rows of the
    page do not suffice. All are of one generation: after a swap the page starts again.
    """
    size: int = body["size"]  # type: ignore[assignment]
    company, served = selection.scope.single_company, call.served_shards(selection.resource)
    if company is None or served is None or not served.spans_shards(company):
        return [read(await call.search(selection.resource, body), size)]

    async def attempt(served: ServedShards | None) -> list[Rows]:
        if served is None or not served.spans_shards(company):
            return [read(await call.search(selection.resource, body), size)]
        found, missing = list[Rows](), size
        key: str | None = feed_key(company, after or "")
        while key is not None and key < f"{company};" and missing:
            response = await call.search(selection.resource, body | {"size": missing}, only=OneShard(served, key))
            found.append(read(response, missing))
            missing -= len(found[-1])
            key = served.end(key)
        return found

    return await call.repeat_after_swap(selection.resource, attempt)


_BATCH_SIZE = 1_000


@dataclass(frozen=True)
class WalkPage:
    """One page of a cursor walk: encoded records, whether it is the final page, and the last identifier."""

    records: Sequence[JsonBytes]
    is_final: bool
    last: str | None


async def walk_page(call: RequestContext, selection: Selection, variant: Variant, size: int) -> WalkPage:
    """Return the page after `last_platform_listing_id`."""
    resource, timestamps_only = selection.resource, call.parameters["timestamps_only"]
    after = call.parameters["last_platform_listing_id"]
    body = walk_body(selection, size, after, timestamps_only=timestamps_only)
    if timestamps_only:
        values = await rows_in_order(call, selection, body, after, lambda response, _: doc_values(resource, response))
        return _timestamps_page(call, [*chain(*values)], variant, size)
    read = partial(_read_batch, call, resource)
    return _record_page(call, await rows_in_order(call, selection, body, after, read), variant, size)


def _record_page(call: RequestContext, batches: Sequence[RecordBatch], variant: Variant, size: int) -> WalkPage:
    stored: list[JsonBytes] = []
    for batch in batches:
        stored += batch.records
    note_records(call.sent, variant.resource, batches, size)
    last = record_identifier(variant.resource, stored[:size][-1]) if stored else None
    return WalkPage(variant.encode(stored[:size]), len(stored) <= size, last)


def _timestamps_page(call: RequestContext, values: list[Any], variant: Variant, size: int) -> WalkPage:
    if call.sent is not None:
        call.sent.values(variant.resource, values[:size])
    encoded = encode_timestamps(variant.resource, values[:size], underscored=variant.underscored)
    return WalkPage(encoded, len(values) <= size, values[:size][-1].id[0] if values else None)


class Snapshots:
    """Provided to the services if there is `/snapshot`, to which numbered pages refer for what they do not reach."""


@dataclass(frozen=True)
class NumberedPage:
    """One page by number. `total` counts all records; only those in the result window are on a page."""

    resource: Resource
    records: Sequence[JsonBytes]
    number: int
    size: int
    total: int

    @property
    def total_pages(self) -> int:
        """The number of pages that can be read, at least 1."""
        return max(1, min(-(-self.total // self.size), MAX_RESULT_WINDOW // self.size))

    def to_json(self, name: str) -> list[JsonBytes]:
        """Return the parts of a body with the page numbers, and the records under `name`."""
        head = f'{{"page_number":{self.number},"total_pages":{self.total_pages},"{name}":'.encode()
        return json_array(self.records, head, b"}")

    def headers(self, call: RequestContext) -> dict[str, str]:
        """Return the paging headers and links."""
        relations = {"first": 1, "last": self.total_pages}
        if self.number > 1:
            relations["prev"] = min(self.number - 1, self.total_pages)
        if self.number < self.total_pages:
            relations["next"] = self.number + 1
        links = link_header(
            call.client.url, {relation: {"page_number": number} for relation, number in relations.items()}
        )
        return {
            "X-Page-Number": str(self.number),
            "X-Total-Pages": str(self.total_pages),
            "X-Total-Count": str(self.total),
            **(links if self.total <= self.total_pages * self.size else self._truncation(call, links[LINK])),
        }

    def _truncation(self, call: RequestContext, links: str) -> dict[str, str]:
        """Return a warning that records lie beyond the last page, and the links with that of the snapshot, if any."""
        warning = f"Numbered pages end after {self.total_pages * self.size} of {self.total} records"
        if call.services.find(Snapshots) is None:
            return {LINK: links, "Warning": f'299 - "{warning}."'}
        scope = {
            name: call.client.url.query[name]
            for name in (COMPANY_PARAMETER, PARENT_PARAMETER)
            if name in call.client.url.query
        }
        snapshot = (call.client.url.parent / "snapshot" / self.resource.alias).with_query(scope)
        alternate = f'<{mask_keys(str(snapshot))}>; rel="alternate"'
        return {LINK: f"{links}, {alternate}", "Warning": f'299 - "{warning}: use the snapshot."'}


async def numbered_page(call: RequestContext, selection: Selection, variant: Variant, size: int) -> NumberedPage:
    """Return the page `page_number`; raise InvalidRequest beyond the result window."""
    number = call.parameters["page_number"] or 1
    if number * size > MAX_RESULT_WINDOW:
        instead = f" /snapshot/{selection.resource.alias} returns all records in one response."
        raise InvalidRequest.of(
            "page_number",
            f"pages reach {MAX_RESULT_WINDOW:,} records; the last is {MAX_RESULT_WINDOW // size}."
            + (instead if call.services.find(Snapshots) else ""),
        )
    timestamps_only = call.parameters.get("timestamps_only", False)
    response, total = await _search_at(call, selection, (number - 1) * size, size, timestamps_only=timestamps_only)
    if timestamps_only:
        values = doc_values(variant.resource, response)
        if call.sent is not None:
            call.sent.values(variant.resource, values)
        records: Sequence[JsonBytes] = encode_timestamps(variant.resource, values, underscored=variant.underscored)
    else:
        records = variant.encode(_sent_records(call, variant.resource, response, size, size))
    return NumberedPage(selection.resource, records, number, size, total)


async def _search_at(
    call: RequestContext, selection: Selection, offset: int, size: int, *, timestamps_only: bool
) -> tuple[bytes, int]:
    """Return the response with the records from `offset`, counted from 0, and the total."""
    search = partial(call.search, selection.resource)
    if offset < DEEP_OFFSET:
        response = await search(numbered_body(selection, offset, size, timestamps_only=timestamps_only))
        return response, total_hits(response)
    return await search_deep_page(search, selection, offset, size, timestamps_only=timestamps_only)


async def all_records(call: RequestContext, selection: Selection, variant: Variant) -> list[JsonBytes]:
    """Return every record of a small collection, in as many searches as it takes."""
    records: list[JsonBytes] = []
    after: str | None = None
    while True:
        response = await call.search(selection.resource, walk_body(selection, _BATCH_SIZE, after))
        stored = _sent_records(call, selection.resource, response, _BATCH_SIZE + 1, _BATCH_SIZE)
        records.extend(variant.encode(stored[:_BATCH_SIZE]))
        if len(stored) <= _BATCH_SIZE:
            return records
        after = record_identifier(selection.resource, stored[_BATCH_SIZE - 1])


async def single_record(call: RequestContext, selection: Selection, variant: Variant) -> JsonBytes | None:
    """Return the only record of a selection, or None."""
    response = await call.search(selection.resource, page_body(selection, 1))
    records = _sent_records(call, selection.resource, response, 1, 1)
    return variant.encode(records)[0] if records else None


def _sent_records(call: RequestContext, resource: Resource, response: bytes, size: int, sent: int) -> list[JsonBytes]:
    """Return the encoded records of a search for `size`, of which the response sends `sent` at most."""
    batch = _read_batch(call, resource, response, size)
    note_records(call.sent, resource, [batch], sent)
    return batch.records


def _read_batch(call: RequestContext, resource: Resource, response: bytes, size: int) -> RecordBatch:
    ends = None if call.sent is None else call.sent.ends()
    if call.is_compatible and (names := call.exact_names(resource)):
        return RecordBatch(extract_exact_records(response, names), response, ends)
    return RecordBatch(extract_records(response, size, ends), response, ends)


async def batched_record(call: RequestContext, resource: Resource, name: str, variant: Variant) -> JsonBytes | None:
    """Return the record with an identifier within the scope, or None; concurrent reads share a request."""
    group = (resource.alias, call.scope.companies, call.visibility.display, call.exact_names(resource))
    if call.sent is not None:
        call.sent.searches(resource, call.mark(resource))
    call.timer.record(Layer.QUERY)
    record = await call.services.engine.batches.load(group, name, partial(_look_up, call, resource))
    call.timer.record(Layer.ELASTICSEARCH)
    if record is None:
        return None
    if call.sent is not None:
        call.sent.names(resource, (name,))
    return variant.encode([record])[0]


async def _look_up(call: RequestContext, resource: Resource, identifiers: Sequence[str]) -> dict[str, JsonBytes]:
    """Return the records in the scope by identifier.

    The company of a record may be too new to be known here: without a scope, what is lacking is read from all shards.
    """
    engine, alias = call.services.engine, call.services.indices[resource].alias
    selection, shard_scope = call.selection(resource), await shards_of_records(call, resource)
    found = await engine.read(alias, identifiers, selection, shard_scope)
    lacking = {*identifiers} - {document.identifier for document in found}
    if lacking and shard_scope.companies != selection.scope.companies:
        found += await engine.read(alias, [*lacking], selection, shard_scope._replace(companies=None))
    names = call.exact_names(resource)
    return {hit.identifier: exact_record(hit.source, names) if names else hit.record for hit in found}


Search = Callable[[Body], Awaitable[bytes]]

# From this offset on, three cheap searches cost less than one that collects all records before it.
DEEP_OFFSET = 10_000
# One record in so many is sampled: by its bucket, an indexed hash of its identifier, so that no other is visited.
_SAMPLE_RATE = 256
_SAMPLE: Clause = {"range": {"bucket": {"lt": BUCKETS // _SAMPLE_RATE}}}
# About how many of the sampled keys around the offset are counted.
_COUNTED_KEYS = 8
# Width of the counted range in standard deviations; that of a number of sampled keys is its square root.
_DEVIATIONS = 3


@dataclass(frozen=True)
class PageStart:
    """A position before a page: the sort key of the next record, None at the very start, and the records before it.

    `total` is the number of all records. `later` are the counted keys after the offset, in order, each with the records
    before it.
    """

    key: str | None
    before: int
    total: int
    later: tuple[tuple[str, int], ...] = ()

    def end(self, offset: int) -> str | None:
        """Return the first counted key that the record before `offset` precedes, None if there is none."""
        return next((key for key, before in self.later if before >= offset), None)


async def search_deep_page(
    search: Search, selection: Selection, offset: int, size: int, *, timestamps_only: bool
) -> tuple[bytes, int]:
    """Return the response with the records from `offset`, counted from 0, and the number of all records.

    Elasticsearch collects `from + size` records to return `size`, at about a microsecond each; it counts a hundred
    times faster. So a deep page takes three searches: sample some sort keys around the offset, count the records
    between them, and read the page between the two keys around it. The sample is only a hint: the counts are exact, so
    the page is the same as with `from` alone. An update between two of the searches shifts the page by that record, as
    it does between two pages.
    """
    start = await find_page_start(search, selection, offset)
    response = await search(deep_page_body(selection, start, offset, size, timestamps_only=timestamps_only))
    if start.end(offset + size) is not None and total_hits(response) < offset - start.before + size:
        # Records have gone since they were counted: the page continues beyond the end.
        endless = replace(start, later=())
        response = await search(deep_page_body(selection, endless, offset, size, timestamps_only=timestamps_only))
    return response, start.total


async def find_page_start(search: Search, selection: Selection, offset: int) -> PageStart:
    """Return a position shortly before the record at `offset`."""
    near = sample_near(offset)
    body = page_body(selection.filtered(_SAMPLE), len(near)) | {"from": near.start, "track_total_hits": False}
    hits = parse_hits(await search(body | {"_source": False, "stored_fields": "_none_"}))
    keys = [hit["sort"][0] for hit in hits]
    counted = keys[:: max(1, len(keys) // _COUNTED_KEYS)]
    return nearest_start(counted, await search(_count_body(selection, counted)), offset)


def sample_near(offset: int) -> range:
    """Return which of the sampled keys to read: the offset probably lies between the first and the last."""
    expected = offset // _SAMPLE_RATE
    shard_scope = _DEVIATIONS * isqrt(expected) + 1
    return range(max(0, expected - shard_scope), expected + shard_scope)


def nearest_start(keys: list[str], count_response: bytes, offset: int) -> PageStart:
    """Return the last key with at most `offset` records before it, by the response to the counting search."""
    response = orjson.loads(count_response)
    ranks = [*accumulate(_counts(response["aggregations"]))] if keys else []
    counted, at = tuple(zip(keys, ranks, strict=True)), bisect_right(ranks, offset)
    key, before = counted[at - 1] if at else (None, 0)
    return PageStart(key, before, response["hits"]["total"]["value"], counted[at:])


def _counts(aggregations: dict[str, Any]) -> Iterator[int]:
    """Yield the numbers of records before the first key and between each two."""
    yield aggregations["before"]["doc_count"]
    if "near" in aggregations:
        buckets = aggregations["near"]["ranks"]["buckets"]
        yield from (buckets[str(at)]["doc_count"] for at in range(len(buckets)))


def _count_body(selection: Selection, keys: list[str]) -> Body:
    """Return the body that counts all records, those before the first key and those between each two keys."""
    aggregations = {"aggs": _count_aggregations(selection.sort_field, keys)} if keys else {}
    return {"size": 0, "query": selection.query(), "track_total_hits": True, **aggregations}


def _count_aggregations(field: str, keys: list[str]) -> Body:
    """Compare each record with the first and the last key, and only the records between them with the other keys."""
    gaps = {str(at): _between(field, *pair) for at, pair in enumerate(pairwise(keys))}
    near = {"filter": _between(field, keys[0], keys[-1]), "aggs": {"ranks": {"filters": {"filters": gaps}}}}
    return {"before": {"filter": _between(field, None, keys[0])}, **({"near": near} if gaps else {})}


def _between(field: str, first: str | None, end: str | None) -> Clause:
    """Match the records from `first` on, up to but without `end`; None leaves that side open."""
    return {"range": {field: {name: key for name, key in (("gte", first), ("lt", end)) if key is not None}}}


def deep_page_body(selection: Selection, start: PageStart, offset: int, size: int, *, timestamps_only: bool) -> Body:
    """Return the body for the page at `offset`, searched between a position before it and one after it."""
    end = start.end(offset + size)
    if start.key is not None or end is not None:
        selection = selection.filtered(_between(selection.sort_field, start.key, end))
    return page_body(selection, size, timestamps_only=timestamps_only) | {
        "from": offset - start.before,
        "track_total_hits": end is not None,
    }
