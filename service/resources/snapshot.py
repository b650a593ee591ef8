"""`/snapshot/{resource}`: everything of a resource that the key may read, in one answer (decision 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import RESOURCES
from service.admission import Kind
from service.encoding.negotiation import Coding, chosen
from service.errors import NotFound, Overloaded
from service.feed.snapshot import After, stream
from service.feed.streaming import Stream, StreamedResponse
from service.feed.view import Kept
from service.headers import OF_OPERATIONS
from service.operation import Call, Operation
from service.parameters.feed import NAMES, Copied, FeedKey

if TYPE_CHECKING:
    from aiohttp import web

    from mappings.resource import Resource

_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


class SnapshotParameters(Copied):
    """Parameters of a snapshot."""

    after = FeedKey("Go on behind this line of a snapshot that broke off, as company:id.")


async def take_snapshot(call: Call) -> web.Response:
    """Answer all records as lines of JSON, between a line with the token and one that proves that all have come."""
    resource = named_resource(call)
    lane = call.services.admission.lane(Kind.SNAPSHOT)
    if lane.running >= lane.places:
        raise Overloaded
    mark = await call.services.marks[resource].get()
    sent = call.parameters["after"]
    lines = stream(Kept(call), resource, mark, None if sent is None else After(*sent))
    coding = chosen(call.headers)
    packed = {} if coding is Coding.IDENTITY else {"Content-Encoding": coding}
    # What goes wrong up to the first line can still be told by a status.
    body = Stream(await anext(lines), lines, coding, lane)
    return StreamedResponse(body, {**OF_OPERATIONS, "Cache-Control": "no-store", **packed})


def named_resource(call: Call) -> Resource:
    """Return the resource that the path names, or raise NotFound."""
    name = call.path["resource"]
    if name not in _BY_ALIAS:
        raise NotFound(f"There is no resource {name!r}: there are {', '.join(NAMES)}.")
    return _BY_ALIAS[name]


OPERATIONS = (Operation("/snapshot/{resource}", SnapshotParameters(), take_snapshot, kind=Kind.PAGE),)
