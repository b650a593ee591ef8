"""`/snapshot/{resource}`: all records of a resource that the key may read, in one response (decision 12)."""

from aiohttp import web

from mappings import RESOURCES
from mappings.resource import Resource
from service.errors import NotFound, NotLoaded, ResourceUnavailable
from service.feed.parameters import RESOURCE_NAMES, FeedFilters, FeedKeyParameter
from service.feed.published_mark import published_mark
from service.feed.snapshot_stream import SnapshotPosition, stream_snapshot
from service.feed.streaming import StreamedResponse, StreamPayload
from service.feed.view import FeedView
from service.http.headers import OPERATION_HEADERS
from service.http.negotiation import ContentCoding, negotiate_coding
from service.limits.admission import RequestKind
from service.limits.admission_lane import AdmissionSlot
from service.operation import Operation
from service.request_context import RequestContext

_RESOURCE_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


class SnapshotParameters(FeedFilters):
    """Parameters of a snapshot."""

    after = FeedKeyParameter("Resume an interrupted snapshot after this line, as company:id.")


async def take_snapshot(call: RequestContext) -> web.Response:
    """Take a snapshot of a resource.

    All records are lines of JSON, between a head line with the token and a tail line with the digest."""
    resource = resource_from_path(call)
    # Before anything is read: once the response has started, it could only be aborted.
    slot = call.services.admission.lane(RequestKind.SNAPSHOT).slot(call.key_id).hold()
    try:
        return await _start_stream(call, resource, slot)
    except BaseException:
        slot.release()
        raise


async def _start_stream(call: RequestContext, resource: Resource, slot: AdmissionSlot) -> StreamedResponse:
    mark = await published_mark(call, resource)
    sent = call.parameters["after"]
    lines = stream_snapshot(FeedView(call), resource, mark, None if sent is None else SnapshotPosition(*sent))
    coding = negotiate_coding(call.headers)
    encoding = {} if coding is ContentCoding.IDENTITY else {"Content-Encoding": coding}
    # Errors before the first line still get an error status.
    try:
        first_line = await anext(lines)
    except ResourceUnavailable:
        # Without a mark, nothing is being rebuilt.
        raise (NotLoaded if mark is None else ResourceUnavailable)(resource.title) from None
    body = StreamPayload(first_line, lines, coding, slot)
    return StreamedResponse(body, {**OPERATION_HEADERS, "Cache-Control": "no-store", **encoding})


def resource_from_path(call: RequestContext) -> Resource:
    """Return the resource that the path names, or raise NotFound."""
    name = call.path["resource"]
    if name not in _RESOURCE_BY_ALIAS:
        raise NotFound(f"There is no resource {name!r}; the resources are {', '.join(RESOURCE_NAMES)}.")
    return _RESOURCE_BY_ALIAS[name]


OPERATIONS = (Operation("/snapshot/{resource}", SnapshotParameters(), take_snapshot, kind=RequestKind.PAGE),)
