"""The compressors. Backends, levels and the use of threads are measured: docs/decisions/0003-compression.md."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import zstandard
from isal import isal_zlib

from service.encoding.negotiation import Coding

Piece = bytes | bytearray | memoryview
# A whole body, or its pieces in order.
Body = Piece | Sequence[Piece]

# The best that igzip does at one pass; level 3 takes four to six times as long for a twelfth less at most.
GZIP_LEVEL = 2
# Its window is 512 KiB; RFC 9659 allows the coding 8 MiB.
ZSTD_LEVEL = 1
GZIP_WINDOW_BITS = 31  # 15 bits of window, and a gzip frame round it
# A thread costs a page of 200 half a millisecond of processor time, a third of its packing, and spares other requests
# at most 3 ms of waiting; larger pages would hold them up for longer. Both compressors release the interpreter.
IN_THREAD_ABOVE_BYTES = 2 * 1024**2


class _Contexts(threading.local):
    """What a thread keeps between two answers: allocating it anew takes half as long again as packing a show."""

    def __init__(self) -> None:
        """Make them when a thread first asks."""
        self.zstd = zstandard.ZstdCompressor(level=ZSTD_LEVEL)


_contexts = _Contexts()


def pieces(body: Body) -> Sequence[Piece]:
    """Return the pieces of a body in order, one if it is whole."""
    return (body,) if isinstance(body, bytes | bytearray | memoryview) else body


def size(body: Body) -> int:
    """Return the bytes of a body."""
    return sum(map(len, pieces(body)))


def compress(body: Body, coding: Coding) -> bytes:
    """Return a body in a coding; the same bytes for the same body every time."""
    # One copy of the whole is cheaper than feeding pieces, where every call costs more than the copying it saves.
    whole = body if isinstance(body, bytes | bytearray | memoryview) else b"".join(body)
    if coding is Coding.GZIP:
        return isal_zlib.compress(whole, GZIP_LEVEL, GZIP_WINDOW_BITS)
    if coding is Coding.ZSTD:
        # Copied out of the space for the worst case, which it would hold on to until the client has read it.
        return bytes(memoryview(_contexts.zstd.compress(whole)))
    return bytes(whole)


async def compressed(body: Body, coding: Coding) -> bytes:
    """Return the same as `compress`, without holding up other requests: large bodies are packed in a thread.

    Pieces are joined there too, so that waiting bodies hold nothing but themselves, and the threads of the loop bound
    how many are copied at a time.
    """
    if size(body) <= IN_THREAD_ABOVE_BYTES:
        return compress(body, coding)
    return await asyncio.get_running_loop().run_in_executor(None, compress, body, coding)
