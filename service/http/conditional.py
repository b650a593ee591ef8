"""Entity tags and `If-None-Match` (RFC 9110, sections 8.8.3 and 13.1.2).

A tag is a digest of the exact bytes that the key may see, and of their coding: two keys get the same tag only for the
same content. It reveals nothing else about records, counts or keys.

`Last-Modified` and `If-Modified-Since` are not supported. A page changes when a record leaves it, when a key's scope
changes and when the time window moves, none of which has a timestamp; and whole seconds are too coarse.
"""

import xxhash
from aiohttp import web

from service.http.negotiation import ContentCoding
from service.http.payload import BufferListPayload

_ETAG = "ETag"
# A 304 has no body that they could describe.
_BODY_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding")


def entity_tag(body: BufferListPayload, coding: ContentCoding) -> str:
    """Return the strong tag of a body in a coding, without compressing it: compression is deterministic."""
    digest = xxhash.xxh3_128()
    for buffer in body.buffers:
        digest.update(buffer)
    suffix = "" if coding is ContentCoding.IDENTITY else f"-{coding}"
    return f'"{digest.hexdigest()}{suffix}"'


def not_modified(request: web.BaseRequest, response: web.Response) -> web.Response | None:
    """Return 304 with the headers of a tagged response if the client has it, else None.

    `*` is a condition on the existence of the resource, and here it exists.
    """
    sent = _if_none_match(request)
    if sent.strip(" \t") != "*" and response.headers[_ETAG] not in sent:
        return None
    headers = {name: value for name, value in response.headers.items() if name not in _BODY_HEADERS}
    return web.Response(status=304, headers=headers)


def has_sent_tag(request: web.BaseRequest, response: web.Response) -> bool:
    """Whether the client sent the tag of a response, which `*` does not prove that it has."""
    return _ETAG in response.headers and response.headers[_ETAG] in _if_none_match(request)


def _if_none_match(request: web.BaseRequest) -> str:
    # A tag contains no inner quote, so it is a substring exactly where it is a list member. The comparison is weak: a
    # `W/` before it does not count (RFC 9110, section 8.8.3.2).
    return ", ".join(request.headers.getall("If-None-Match", ()))
