"""Response compression, with a cache of large compressed bodies.

Libraries, levels and the use of threads are measured: docs/decisions/0003-compression.md.
"""

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence

import xxhash
from isal import isal_zlib

from cluster.zstd import zstd
from service.http.negotiation import ContentCoding

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
        """Return a body in a coding."""
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
