"""Tag and compress the responses of operations."""

from aiohttp import web

from service.http.compression import CompressionCache
from service.http.conditional import entity_tag, not_modified
from service.http.negotiation import GEOJSON, JSON, ContentCoding, negotiate_coding
from service.http.payload import BufferListPayload

# A smaller response fits into one TCP segment, compressed or not.
MIN_COMPRESSED_BYTES = 1024
_COMPRESSED_TYPES = frozenset({JSON, GEOJSON})


async def encode_response(request: web.Request, response: web.Response, cache: CompressionCache) -> web.Response:
    """Tag a response and compress its body in place; return it, or 304 if the client has it.

    The tag needs the coding but not the compressed bytes, so a 304 costs no compression. Bodies below
    `MIN_COMPRESSED_BYTES` and types other than JSON are not compressed. A response to HEAD is, because it must have the
    same length as to GET. Every response of an operation carries `Vary`, compressed or not (`service.http.headers`).
    """
    body = response.body
    if not isinstance(body, BufferListPayload):
        return response
    coding = _coding(request, response, body)
    response.headers["ETag"] = entity_tag(body, coding)
    if (unchanged := not_modified(request, response)) is not None:
        return unchanged
    if coding is not ContentCoding.IDENTITY:
        response.body = BufferListPayload([await cache.compress(body.buffers, coding)])
        response.headers["Content-Encoding"] = coding
    return response


def _coding(request: web.Request, response: web.Response, body: BufferListPayload) -> ContentCoding:
    if (body.size or 0) < MIN_COMPRESSED_BYTES or response.content_type not in _COMPRESSED_TYPES:
        return ContentCoding.IDENTITY
    return negotiate_coding(request.headers)
