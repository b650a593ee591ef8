"""HTTP responses: their headers, bodies of buffers, entity tags and codings (`/docs/transfer`)."""

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import xxhash
from aiohttp import ClientConnectionResetError, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload
from aiohttp.typedefs import Handler, Middleware
from isal import isal_zlib
from yarl import URL

from cluster.zstd import zstd
from service.background import in_turns
from service.http.requests import JSON, ContentCoding, negotiate_coding
from service.keys.api_key import mask_keys
from service.settings import ANY_ORIGIN, require_valid_origins

API_KEY_HEADER = "x-api-key"
API_KEY_PARAMETER = "api-key"  # in the query string
REQUEST_ID = "X-Request-Id"
NEXT_WATERMARK = "X-Next-Updated-Since"
LINK = "Link"

# The content depends on the key, which shared caches do not know about (RFC 9111 knows `Authorization` only). The
# client's own cache may store it, and must revalidate it each time.
OPERATION_HEADERS: Mapping[str, str] = {"Cache-Control": "private, no-cache", "Vary": "x-api-key, Accept-Encoding"}
# For operations with two media types.
TWO_MEDIA_TYPE_HEADERS: Mapping[str, str] = {"Vary": "x-api-key, Accept-Encoding, Accept"}
NO_STORE: Mapping[str, str] = {"Cache-Control": "no-store"}
# Of pages: only our own resources, no framing, no form targets.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; script-src 'self'; connect-src 'self'"
)
# A key in a URL must not leak to another site, and browsers must not guess a type.
_SECURITY_HEADERS: Mapping[str, str] = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}

# Headers that a step adds for its response, even if a later step refuses the request. `service.http.problems` creates
# the dictionary and merges it into the response at the end.
EXTRA_HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("extra headers", dict[str, str])


def add_common_headers(response: web.StreamResponse, request_id: str, request: web.BaseRequest | None = None) -> None:
    """Add the headers of every response, in place; `request` is None if it could not be parsed.

    Responses without `Cache-Control` get `no-store`: problem documents, probes, `OPTIONS`. So do all responses to a URL
    with a key in it, because caches index responses by URL.
    """
    headers = response.headers
    headers[REQUEST_ID] = request_id
    headers.update(_SECURITY_HEADERS)
    # Refusals have no `Cache-Control`: the query of a request that was refused for its length is never parsed.
    if "Cache-Control" not in headers or (request is not None and API_KEY_PARAMETER in request.query):
        headers.update(NO_STORE)


# Below this size a join costs less than writing the buffers one by one.
_MIN_SCATTERED_BYTES = 65_536
# What a transport copies and sends in a millisecond: it copies what it is given up to three times.
_WRITTEN_BYTES = 1_000_000

# One record as JSON text: bytes of its own, or a view into the response that it came in.
JsonBytes = bytes | memoryview


class BufferListPayload(Payload):
    """A body of consecutive buffers."""

    def __init__(self, parts: Sequence[JsonBytes], records: int = 1) -> None:
        """Add up the size, so that the response needs no chunked encoding; `records` is the number of records."""
        super().__init__(parts, content_type="application/json")
        self.buffers = parts  # in order
        self._size: int = sum(map(len, parts))
        self.records = records
        self.on_sent: Callable[[], None] | None = None

    def join(self) -> bytes:
        """Return the body in one piece."""
        return b"".join(self.buffers)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self.join().decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body, and wait until the connection accepts more."""
        if self._size < _MIN_SCATTERED_BYTES:
            await writer.write(self.join())
        else:
            await self._write_buffers(cast("StreamWriter", writer))
        if self.on_sent is not None:
            self.on_sent()

    async def _write_buffers(self, stream: StreamWriter) -> None:
        stream.send_headers()
        # Dividing takes a tenth of a millisecond for 200 records, which pages need not pay.
        pieces = _pieces(self.buffers) if self._size > 2 * _WRITTEN_BYTES else [self.buffers]
        async for piece in in_turns(pieces):
            if stream.transport is None or stream.transport.is_closing():
                raise ClientConnectionResetError("The client has disconnected.")
            stream.transport.writelines(piece)
        await stream.drain()

    async def close(self) -> None:
        """Release the buffers: aiohttp holds a response until the next one on the same connection."""
        await super().close()
        self._value = self.buffers = ()


def _pieces(buffers: Iterable[JsonBytes]) -> Iterator[list[JsonBytes]]:
    """Yield buffers in lists of some `_WRITTEN_BYTES`; a larger buffer is divided."""
    piece, size = list[JsonBytes](), 0
    for buffer in buffers:
        for at in range(0, len(buffer), _WRITTEN_BYTES):
            part = buffer if len(buffer) <= _WRITTEN_BYTES else memoryview(buffer)[at : at + _WRITTEN_BYTES]
            if size and size + len(part) > _WRITTEN_BYTES:
                yield piece
                piece, size = [], 0
            piece.append(part)
            size += len(part)
    yield piece


def json_response(
    parts: Sequence[JsonBytes],
    headers: Mapping[str, str] | None = None,
    content_type: str = JSON,
    records: int = 1,
) -> web.Response:
    """Return 200 with an encoded JSON body of so many records; `content_type` may be a more specific JSON type."""
    return web.Response(
        body=BufferListPayload(parts, records),
        headers={**OPERATION_HEADERS, **(headers or {})},
        content_type=content_type,
    )


def json_array(records: Sequence[JsonBytes], before: bytes = b"", after: bytes = b"") -> list[JsonBytes]:
    """Return the parts of a JSON array of encoded records, with text before and after it."""
    parts: list[JsonBytes] = [b","] * (2 * len(records) + 1)
    parts[1::2] = records
    parts[0] = before + b"["
    if records:
        parts[-1] = b"]" + after
    else:
        parts.append(b"]" + after)
    return parts


def link_header(url: URL, relations: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the Link header: for each relation the request's URL with changed parameters, never with the key."""
    targets = []
    for relation, changes in relations.items():
        query = {name: value for name, value in url.query.items() if name != API_KEY_PARAMETER}
        target = url.with_query(query | {name: str(value) for name, value in changes.items()})
        targets.append(f'<{target}>; rel="{relation}"')
    return {LINK: mask_keys(", ".join(targets))} if targets else {}


# Libraries, levels and the use of threads are measured: docs/decisions/0003-compression.md.
Buffer = bytes | bytearray | memoryview
# A whole body, or its pieces in order.
BodyBuffers = Buffer | Sequence[Buffer]

# The best of igzip's single-pass levels; level 3 takes four to six times as long and saves a twelfth at most.
GZIP_LEVEL = 2
# Its window is 512 KiB; RFC 9659 allows the coding 8 MiB.
ZSTD_LEVEL = 1
GZIP_WINDOW_BITS = 31  # a window of 15 bits, in a gzip frame
# A thread costs half a millisecond of processor time for a page of 200, a third of its compression, and saves other
# requests at most 3 ms of waiting; larger pages would delay them for longer. Both libraries release the GIL.
THREAD_THRESHOLD_BYTES = 2 * 1024**2
# About fifty pages of 200 in gzip. Clients that page through the same feed at the same time are a page or two apart.
MAX_CACHE_BYTES = 8 * 1024**2
# Looking up a smaller body costs more than a tenth of compressing it.
MIN_CACHED_BYTES = 64 * 1024


class _ThreadCompressors(threading.local):
    """The compressor of each thread: allocating one takes half as long again as compressing a single record."""

    def __init__(self) -> None:
        self.zstd = zstd.ZstdCompressor(level=ZSTD_LEVEL)


_compressors = _ThreadCompressors()


def _buffers(body: BodyBuffers) -> Sequence[Buffer]:
    return (body,) if isinstance(body, bytes | bytearray | memoryview) else body


def _size(body: BodyBuffers) -> int:
    return sum(map(len, _buffers(body)))


def compress(body: BodyBuffers, coding: ContentCoding) -> bytes:
    """Return a body in a coding; the same bytes for the same body every time."""
    # One copy of the body is cheaper than feeding its pieces: each call costs more than the copying it saves.
    joined = body if isinstance(body, bytes | bytearray | memoryview) else b"".join(body)
    if coding is ContentCoding.GZIP:
        return isal_zlib.compress(joined, GZIP_LEVEL, GZIP_WINDOW_BITS)
    if coding is ContentCoding.ZSTD:
        # One call for a whole frame, so that its header states the size; the compressor is ready for the next one.
        return _compressors.zstd.compress(joined, zstd.ZstdCompressor.FLUSH_FRAME)
    return bytes(joined)


async def compress_async(body: BodyBuffers, coding: ContentCoding) -> bytes:
    """Return the same as `compress`, with large bodies in a thread so that they do not block other requests.

    Pieces are joined there too: a waiting body holds no copy, and the thread pool bounds how many are copied at a time.
    """
    if _size(body) <= THREAD_THRESHOLD_BYTES:
        return compress(body, coding)
    return await asyncio.get_running_loop().run_in_executor(None, compress, body, coding)


class CompressionCache:
    """An LRU cache of large compressed bodies, keyed by a digest of their content.

    A body of which any byte changed has another key, so no entry is ever stale, and a request must present the whole
    body, so no key gets to see another key's data. The digest has 128 bits and a seed that is secret to the process. A
    lookup costs a fifteenth of compressing the body.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        """Start empty; hold at most `max_bytes` of compressed bodies."""
        self._max_bytes = max_bytes
        self._seed = secrets.randbits(64)
        self._entries: OrderedDict[tuple[ContentCoding, bytes], bytes] = OrderedDict()
        self.cached_bytes = 0

    async def compress(self, body: BodyBuffers, coding: ContentCoding) -> bytes:
        if _size(body) < MIN_CACHED_BYTES:
            return compress(body, coding)
        key = coding, self._digest(body)
        if (cached := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
            return cached
        compressed = await compress_async(body, coding)
        self._store(key, compressed)
        return compressed

    def _digest(self, body: BodyBuffers) -> bytes:
        digest = xxhash.xxh3_128(seed=self._seed)
        for buffer in _buffers(body):
            digest.update(buffer)
        return digest.digest()

    def _store(self, key: tuple[ContentCoding, bytes], compressed: bytes) -> None:
        # Another request may have stored the same body while a thread compressed this one.
        self.cached_bytes += len(compressed) - len(self._entries.pop(key, b""))
        self._entries[key] = compressed
        while self.cached_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.cached_bytes -= len(oldest)


_ETAG = "ETag"
# A 304 has no body that they could describe.
_BODY_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding")


def entity_tag(body: BufferListPayload, coding: ContentCoding) -> str:
    """Return the strong tag of a body in a coding, without compressing it: compression is deterministic.

    It is a digest of the exact bytes that the key may see: two keys get the same tag only for the same content. There
    is no `Last-Modified`: a page also changes when a record leaves it, when the scope of a key changes and when the
    time window moves, none of which has a timestamp, and whole seconds are too coarse.
    """
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


# A smaller response fits into one TCP segment, compressed or not.
MIN_COMPRESSED_BYTES = 1024


async def encode_response(request: web.Request, response: web.Response, cache: CompressionCache) -> web.Response:
    """Tag a response and compress its body in place; return it, or 304 if the client has it.

    The tag needs the coding but not the compressed bytes, so a 304 costs no compression. Bodies below
    `MIN_COMPRESSED_BYTES` and types other than JSON are not compressed. A response to HEAD is, because it must have the
    same length as to GET. Every response of an operation carries `Vary`, compressed or not (`service.http.responses`).
    """
    body = response.body
    if not isinstance(body, BufferListPayload):
        return response
    coding = _coding(request, response, body)
    response.headers["ETag"] = entity_tag(body, coding)
    if "If-None-Match" in request.headers and (unchanged := not_modified(request, response)) is not None:
        return unchanged
    if coding is not ContentCoding.IDENTITY:
        response.body = BufferListPayload([await cache.compress(body.buffers, coding)], body.records)
        response.headers["Content-Encoding"] = coding
    return response


def _is_json(content_type: str) -> bool:
    return content_type == JSON or content_type.endswith("+json")


def _coding(request: web.Request, response: web.Response, body: BufferListPayload) -> ContentCoding:
    if (body.size or 0) < MIN_COMPRESSED_BYTES or not _is_json(response.content_type):
        return ContentCoding.IDENTITY
    return negotiate_coding(request.headers)


@dataclass(frozen=True)
class PrecompressedBody:
    """A body in one coding, with its headers."""

    body: bytes
    headers: Mapping[str, str]

    def respond(self, request: web.Request) -> web.Response:
        """Return the response, or 304 if the client has it."""
        response = web.Response(body=self.body, headers=self.headers)
        return not_modified(request, response) or response


def precompress(body: bytes, coding: ContentCoding, headers: Mapping[str, str]) -> PrecompressedBody:
    """Compress a body; `headers` are its type and cache directives, to which tag, coding and `Vary` are added."""
    body = compress(body, coding)
    added = {"Vary": "Accept-Encoding", "ETag": f'"{xxhash.xxh3_128_hexdigest(body)}"'}
    if coding is not ContentCoding.IDENTITY:
        added["Content-Encoding"] = coding
    return PrecompressedBody(body, {**headers, **added})


# What scripts may send. OData clients in browsers send the second line; a long `Accept` needs permission, too.
_ALLOWED_HEADERS = (
    "x-api-key, Authorization, If-None-Match, Prefer, "
    "Accept, Content-Type, OData-Version, OData-MaxVersion, MaxDataServiceVersion, X-CSRF-Token, X-Requested-With"
)
_ALLOWED_METHODS = "GET, HEAD, OPTIONS"
# In addition to the headers that scripts may always read.
_EXPOSED_HEADERS = ", ".join(
    (
        *("ETag", "Link", "Retry-After", "Warning", "X-Page-Number", "X-Total-Count", "X-Total-Pages"),
        *("RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
        *("Deprecation", "Sunset", NEXT_WATERMARK, REQUEST_ID),
        *("OData-Version", "Preference-Applied"),
    )
)
# The longest that browsers cache a preflight response.
_PREFLIGHT_SECONDS = "7200"


def cors_middleware(origins: Collection[str]) -> Middleware:
    """Return the middleware that lets scripts of these origins read responses.

    Credentials are never allowed: a key is a header that the script must set itself, so no page can use credentials
    that a browser stored for another one.
    """
    require_valid_origins(origins)

    @web.middleware
    async def add_cors_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        headers = response.headers
        if ANY_ORIGIN not in origins:
            # Even if the origin is not allowed: a response cached for one site must not be served to another.
            headers["Vary"] = ", ".join(filter(None, (headers.get("Vary"), "Origin")))
        origin = request.headers.get("Origin", "")
        if ANY_ORIGIN in origins or origin in origins:
            headers["Access-Control-Allow-Origin"] = ANY_ORIGIN if ANY_ORIGIN in origins else origin
            headers.update(_preflight(request) or {"Access-Control-Expose-Headers": _EXPOSED_HEADERS})
        return response

    return add_cors_headers


def _preflight(request: web.Request) -> dict[str, str]:
    """Return the headers of the response to a preflight request; none for any other request."""
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return {}
    return {
        "Access-Control-Allow-Methods": _ALLOWED_METHODS,
        "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
    }
