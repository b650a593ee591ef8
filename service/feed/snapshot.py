"""A snapshot: every record of a scope at one moment, a line each, between a line of what it is and one of proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mappings.document import feed_key
from mappings.index import fingerprint
from service.errors import EngineUnavailable
from service.feed import lines, rows, token
from service.feed.point import point_in_time
from service.feed.token import Place
from service.query import Selection
from service.telemetry.observation import OBSERVED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from cluster.control import Mark
    from mappings.resource import Resource
    from service.feed.view import Kept

# Records; three answers of some 6 MB are held at a time. Elasticsearch needs a tenth less for pages of twice the size.
PAGE = 1000


class After(NamedTuple):
    """The company and the identifier of the last line that a client has."""

    company: str
    identifier: str

    def __str__(self) -> str:
        """Return it as it is sent."""
        return feed_key(self.company, self.identifier)


class _Head(msgspec.Struct):
    resource: str
    token: str
    as_of: str
    count: int
    schema: str
    after: str | None


class _Tail(msgspec.Struct):
    count: int
    digest: str
    last: str | None
    complete: bool = True


_encode = msgspec.json.Encoder().encode


async def stream(kept: Kept, resource: Resource, mark: Mark | None, after: After | None) -> AsyncGenerator[bytes]:
    """Yield the lines of a snapshot, some thousand together; raise ApiError.

    `mark` was read before: all that it covers is in the state that is read, so that changes go on from its token.
    """
    call, last, sent = kept.call, str(after or ""), 0
    selection = Selection(resource, call.scope, tuple(kept.clauses(resource)))
    async with point_in_time(call.services.engine, call.services.connection.alias(resource)) as point:
        digest = await point.digest(selection, last)
        yield _head(kept, resource, mark, digest.count, last or None)
        async for answer in point.pages(selection, last, digest.count, PAGE):
            page = rows.read(answer, kept.variant(resource))
            last, sent = page.last or last, sent + page.rows
            OBSERVED.get().rows += page.rows
            yield page.encoded
    if sent != digest.count:
        raise EngineUnavailable(f"A snapshot of {digest.count} {resource.alias} came to {sent}.")
    yield _encode(_Tail(digest.count, f"{digest.total:016x}", last or None)) + b"\n"


def _head(kept: Kept, resource: Resource, mark: Mark | None, count: int, after: str | None) -> bytes:
    text = token.write(kept.fingerprint, {resource: Place.at(mark)})
    as_of = lines.moment(mark.clock if mark else 0).decode()
    return _encode(_Head(resource.alias, text, as_of, count, fingerprint(resource), after)) + b"\n"
