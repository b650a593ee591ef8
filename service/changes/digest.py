"""`/digest/{resource}`: sums over buckets of records, to compare a copy with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec
import orjson
from aiohttp import web

from cluster.control_index import Mark
from mappings.resource import Resource
from mappings.stored_document import Digest
from mappings.visibility import ShownContent
from service import token
from service.errors import InvalidRequest
from service.feed.entries import FeedView, HashSums, mark_of_copy, sum_aggregations
from service.feed.parameters import BucketPrefixes, FeedFilters, resource_from_path
from service.feed.streaming import content_hex
from service.http.responses import json_response
from service.limits.admission import RequestKind
from service.operation import Operation
from service.request_context import RequestContext
from service.search.query import Body, Clause, match_any, scope_clauses, term
from service.token import FeedPosition

# Hexadecimal digits of a bucket: the first two bytes of a hash.
BUCKET_DIGITS = 4
# Per Elasticsearch response; a bucket of a resource of 20 million records holds about 300.
MAX_RECORDS = 10_000
# Named queries: Elasticsearch reports which of them a document matched.
_VISIBLE_QUERY, _UNPUBLISHED_QUERY = "visible", "unpublished"


class BucketRecord(msgspec.Struct):
    """A record: its identifier and its content hash, as 16 hexadecimal digits."""

    id: str
    content: str


class DigestBucket(msgspec.Struct, omit_defaults=True):
    """The records under one prefix. `unsettled` counts documents that are not published yet."""

    prefix: str
    count: int
    digest: str
    unsettled: int
    records: list[BucketRecord] | None = None


@dataclass
class BucketList:
    """The buckets that are not empty, in order."""

    buckets: list[DigestBucket] = field(default_factory=list)

    @property
    def total(self) -> Digest:
        return sum((Digest(bucket.count, int(bucket.digest, 16)) for bucket in self.buckets), Digest())

    @property
    def unsettled(self) -> int:
        """The number of documents that are not published yet."""
        return sum(bucket.unsettled for bucket in self.buckets)


def child_prefix_digits(prefixes: Sequence[str] | None) -> int:
    """Return the number of prefix digits of the buckets below `prefixes`."""
    return 2 if prefixes is None else BUCKET_DIGITS


def buckets_body(view: FeedView, resource: Resource, prefixes: Sequence[str] | None, mark: Mark) -> Body:
    """Return the body that aggregates buckets of two digits, or of four digits below the given prefixes of two."""
    live = {"bool": {"filter": _visible_clauses(view, resource)}}
    width = 16 ** (BUCKET_DIGITS - child_prefix_digits(prefixes))
    return {
        "size": 0,
        "track_total_hits": False,
        "query": _prefix_query(view, prefixes),
        "aggs": {
            "buckets": {
                "histogram": {"field": "bucket", "interval": width, "min_doc_count": 1},
                "aggs": {
                    "live": {"filter": live, "aggs": sum_aggregations(view.content(resource))},
                    "unsettled": {"filter": _unpublished_clause(mark)},
                },
            }
        },
    }


def records_body(view: FeedView, resource: Resource, prefixes: Sequence[str], mark: Mark) -> Body:
    """Return the body that reads the records of buckets, and the documents there that are not published yet."""
    matching: list[Clause] = [
        {"bool": {"filter": _visible_clauses(view, resource), "_name": _VISIBLE_QUERY}},
        {"bool": {"filter": [_unpublished_clause(mark)], "_name": _UNPUBLISHED_QUERY}},
    ]
    return {
        "size": MAX_RECORDS + 1,
        "track_total_hits": False,
        "query": {"bool": {"filter": [_prefix_query(view, prefixes), match_any(*matching)]}},
        "sort": ["feed_key"],
        "stored_fields": "_none_",
        "docvalue_fields": ["id", *sorted(view.content(resource).names), "bucket"],
    }


def _visible_clauses(view: FeedView, resource: Resource) -> list[Clause]:
    return [term("deleted", value=False), *view.clauses(resource)]


def _prefix_query(view: FeedView, prefixes: Sequence[str] | None) -> Clause:
    """Match the documents of the scope under the prefixes, tombstones included."""
    ranges: list[Clause] = [{"range": {"bucket": _bucket_range(prefix)}} for prefix in prefixes or ()]
    prefix_clauses = [match_any(*ranges)] if ranges else []
    return {"bool": {"filter": [*scope_clauses(view.call.scope), *prefix_clauses]}}


def _bucket_range(prefix: str) -> dict[str, int]:
    width = 16 ** (BUCKET_DIGITS - len(prefix))
    first = int(prefix, 16) * width
    return {"gte": first, "lt": first + width}


def _unpublished_clause(mark: Mark) -> Clause:
    return {"range": {"sequence": {"gt": mark.sequence}}}


class _DocumentCount(msgspec.Struct):
    doc_count: int


class _BucketAggregation(msgspec.Struct):
    key: float
    live: HashSums
    unsettled: _DocumentCount


def parse_buckets(response: dict[str, Any], prefixes: Sequence[str] | None) -> BucketList:
    """Return the buckets from the response to `buckets_body`."""
    digits = child_prefix_digits(prefixes)
    width = 16 ** (BUCKET_DIGITS - digits)
    aggregations = msgspec.convert(response["aggregations"]["buckets"]["buckets"], list[_BucketAggregation])
    buckets = [_convert_bucket(bucket, f"{int(bucket.key) // width:0{digits}x}") for bucket in aggregations]
    return BucketList([bucket for bucket in buckets if bucket.count or bucket.unsettled])


def _convert_bucket(aggregation: _BucketAggregation, prefix: str) -> DigestBucket:
    digest = aggregation.live.digest
    return DigestBucket(prefix, digest.count, f"{digest.total:016x}", aggregation.unsettled.doc_count)


class _BucketHit(msgspec.Struct):
    fields: dict[str, list[Any]]
    matched_queries: list[str] = []


def parse_records(response: dict[str, Any], content: ShownContent) -> BucketList:
    """Return the buckets and records from the response to `records_body`; raise InvalidRequest for too many."""
    hits = msgspec.convert(response["hits"]["hits"], list[_BucketHit])
    if len(hits) > MAX_RECORDS:
        raise InvalidRequest.of(
            "prefixes", f"the prefixes hold more than {MAX_RECORDS:,} records: send fewer at a time."
        )
    groups = groupby(sorted(hits, key=_bucket_number), _bucket_number)
    return BucketList(
        [_bucket_of_records(f"{number:0{BUCKET_DIGITS}x}", list(group), content) for number, group in groups]
    )


def _bucket_number(hit: _BucketHit) -> int:
    number: int = hit.fields["bucket"][0]
    return number


def _bucket_of_records(prefix: str, hits: list[_BucketHit], shown: ShownContent) -> DigestBucket:
    digest, members = Digest(), list[BucketRecord]()
    for fields in (hit.fields for hit in hits if _VISIBLE_QUERY in hit.matched_queries):
        identifier = fields["id"][0]
        (content,) = fields.get(shown.without_address.content) or fields[shown.content]
        digest.add(identifier, content)
        members.append(BucketRecord(identifier, content_hex(content)))
    unsettled = sum(_UNPUBLISHED_QUERY in hit.matched_queries for hit in hits)
    return DigestBucket(prefix, digest.count, f"{digest.total:016x}", unsettled, members)


class DigestParameters(FeedFilters):
    """Parameters of a digest."""

    prefixes = BucketPrefixes(
        "Buckets to list: hexadecimal prefixes of 2 or of 4 digits, separated by commas. Absent: all records."
    )


class _DigestResponse(msgspec.Struct):
    resource: str
    token: str
    count: int
    digest: str
    unsettled: int
    buckets: list[DigestBucket]


async def read_digest(call: RequestContext) -> web.Response:
    """Get the digest of a resource.

    Counts and digests come by identifier bucket; prefixes of 4 digits also list the records."""
    resource, view = resource_from_path(call), FeedView(call)
    mark = await mark_of_copy(call, resource)
    bucket_list = BucketList() if mark is None else await _search_buckets(call, view, resource, mark)
    text = await call.services.tokens.seal(token.encode_token(view.fingerprint, {resource: FeedPosition.latest(mark)}))
    total = bucket_list.total
    digest = f"{total.total:016x}"
    response = _DigestResponse(resource.alias, text, total.count, digest, bucket_list.unsettled, bucket_list.buckets)
    return json_response([msgspec.json.encode(response)])


async def _search_buckets(call: RequestContext, view: FeedView, resource: Resource, mark: Mark) -> BucketList:
    prefixes = call.parameters["prefixes"]
    if prefixes and len(prefixes[0]) == BUCKET_DIGITS:
        response = await call.search(resource, records_body(view, resource, prefixes, mark), mark.sequence)
        return parse_records(orjson.loads(response), view.content(resource))
    response = await call.search(resource, buckets_body(view, resource, prefixes, mark), mark.sequence)
    return parse_buckets(orjson.loads(response), prefixes)


DIGEST_OPERATIONS = (Operation("/digest/{resource}", DigestParameters(), read_digest, kind=RequestKind.PAGE),)
