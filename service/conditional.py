"""Entity tags and `If-None-Match` (RFC 9110, sections 8.8.3 and 13.1.2): what a client has is not sent again.

A tag is a digest of the very bytes that the key would be shown, and of their coding: two keys have the same tag only
where they are shown the same. It says nothing of records, counts or keys beyond that.

`Last-Modified` and `If-Modified-Since` are not offered. A page changes when a record leaves it, when a key's scope
changes and when the time window moves, none of which has a moment that could be told; and whole seconds are too coarse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash
from aiohttp import web

from service.encoding.negotiation import Coding

if TYPE_CHECKING:
    from service.parts import Parts

_ETAG = "ETag"
# A 304 has no body that they could describe.
_OF_BODIES = ("Content-Type", "Content-Length", "Content-Encoding")


def entity_tag(body: Parts, coding: Coding) -> str:
    """Return the strong tag of a body in a coding. The compressors are not asked: they pack the same bytes alike."""
    digest = xxhash.xxh3_128()
    update = digest.update
    for piece in body.pieces:
        update(piece)
    suffix = "" if coding is Coding.IDENTITY else f"-{coding}"
    return f'"{digest.hexdigest()}{suffix}"'


def unchanged(request: web.BaseRequest, response: web.Response) -> web.Response | None:
    """Return 304 with the headers of an answer that has its tag, if that is what the client has; else None."""
    held = request.headers.getall("If-None-Match", ())
    if not held or not _holds(", ".join(held), response.headers[_ETAG]):
        return None
    kept = {name: value for name, value in response.headers.items() if name not in _OF_BODIES}
    return web.Response(status=304, headers=kept)


def _holds(held: str, tag: str) -> bool:
    # A tag holds no quote within its own, so it is in a list just where it is a member. Weak comparison: a `W/` before
    # it does not count (RFC 9110, section 8.8.3.2).
    return held.strip(" \t") == "*" or tag in held
