"""A snapshot: every record of a scope at one point in time, one per line, between a head line and a tail line."""

from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec

from cluster.control_index import Mark
from mappings.index_body import schema_fingerprint
from mappings.resource import Resource
from mappings.stored_document import feed_key
from service.errors import EngineUnavailable
from service.feed import json_lines, snapshot_page, token
from service.feed.point_in_time import open_point_in_time
from service.feed.token import FeedPosition
from service.feed.view import FeedView
from service.search.query import Selection
from service.search.shards.scope_reach import scope_reach
from service.telemetry.observation import CURRENT_OBSERVATION

# Records. Three pages of some 3 MB are held at a time; pages of twice the size cost Elasticsearch a tenth less.
PAGE_SIZE = 500


class SnapshotPosition(NamedTuple):
    """The company and identifier of the last line that a client has received."""

    company: str
    identifier: str

    def __str__(self) -> str:
        """Return the position as clients send it."""
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
    """
    call, last, sent = view.call, str(after or ""), 0
    selection = Selection(resource, call.scope, tuple(view.clauses(resource)))
    call.require(resource, view.required_fields(resource))
    call.audit.searches(resource, mark)
    reach = await scope_reach(call, resource, mark.sequence if mark else None)
    async with open_point_in_time(call.services.engine, call.services.connection.alias(resource), reach) as point:
        digest = await point.digest(selection, view.content(resource), last)
        yield await _encode_first_line(view, resource, mark, digest.count, last or None)
        async for response in point.pages(selection, last, digest.count, PAGE_SIZE):
            page = snapshot_page.encode_page(response, view.variant(resource), view.content(resource))
            rows = len(page.beginnings)
            last, sent = page.last_feed_key or last, sent + rows
            CURRENT_OBSERVATION.get().rows += rows
            call.audit.batch(resource, page.beginnings)
            # Not held while the client reads.
            del response
            yield page.encoded
    if sent != digest.count:
        raise EngineUnavailable(f"A snapshot of {digest.count} {resource.alias} returned {sent}.")
    yield _encode(_LastLine(digest.count, f"{digest.total:016x}", last or None)) + b"\n"


async def _encode_first_line(
    view: FeedView, resource: Resource, mark: Mark | None, count: int, after: str | None
) -> bytes:
    contents = token.encode_token(view.fingerprint, {resource: FeedPosition.latest(mark)})
    text = await view.call.services.tokens.seal(contents)
    as_of = json_lines.iso_timestamp(mark.clock if mark else 0).decode()
    return _encode(_FirstLine(resource.alias, text, as_of, count, schema_fingerprint(resource), after)) + b"\n"
