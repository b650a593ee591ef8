"""`/digest/{resource}`: counts and digests by which a consumer verifies its copy (decision 12)."""

import msgspec
import orjson
from aiohttp import web

from cluster.control_index import Mark
from mappings.resource import Resource
from service.errors import NotLoaded
from service.feed import buckets, token
from service.feed.buckets import BucketList, DigestBucket
from service.feed.operations.snapshot import resource_from_path
from service.feed.parameters import BucketPrefixes, FeedFilters
from service.feed.published_mark import published_mark
from service.feed.token import FeedPosition
from service.feed.view import FeedView
from service.http.responses import json_response
from service.limits.admission import RequestKind
from service.operation import Operation
from service.request_context import RequestContext


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
    mark = await published_mark(call, resource)
    if mark is None:
        raise NotLoaded(resource.title)
    bucket_list = await _search_buckets(call, view, resource, mark)
    text = await call.services.tokens.seal(token.encode_token(view.fingerprint, {resource: FeedPosition.latest(mark)}))
    total = bucket_list.total
    digest = f"{total.total:016x}"
    response = _DigestResponse(resource.alias, text, total.count, digest, bucket_list.unsettled, bucket_list.buckets)
    return json_response([msgspec.json.encode(response)])


async def _search_buckets(call: RequestContext, view: FeedView, resource: Resource, mark: Mark) -> BucketList:
    prefixes = call.parameters["prefixes"]
    if prefixes and len(prefixes[0]) == buckets.BUCKET_DIGITS:
        response = await call.search(resource, buckets.records_body(view, resource, prefixes, mark), mark.sequence)
        return buckets.parse_records(orjson.loads(response), view.content(resource))
    response = await call.search(resource, buckets.buckets_body(view, resource, prefixes, mark), mark.sequence)
    return buckets.parse_buckets(orjson.loads(response), prefixes)


OPERATIONS = (Operation("/digest/{resource}", DigestParameters(), read_digest, kind=RequestKind.PAGE),)
