"""Packs bodies; one that was packed a moment ago for somebody else is not packed again."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

import xxhash

from service.encoding.compression import compress, compressed, pieces, size

if TYPE_CHECKING:
    from service.encoding.compression import Body
    from service.encoding.negotiation import Coding

# About fifty pages of 200 in gzip. Clients that walk the same feed side by side are a page or two apart.
ROOM_BYTES = 8 * 1024**2
# Looking for a smaller one costs more than a tenth of packing it.
REMEMBERED_FROM_BYTES = 64 * 1024


class Packer:
    """Packs bodies in codings and remembers the latest large ones.

    It remembers by content: a body of which any byte changed is another body, so nothing can be out of date, and who
    asks has the whole body already, so no key gets to see what it may not. The checksum has 128 bits and a seed that
    nobody outside the process knows. Finding a body again costs a fifteenth of packing it.
    """

    def __init__(self, room: int = ROOM_BYTES) -> None:
        """Remember nothing yet, and later packed bodies of up to `room` bytes together."""
        self._room = room
        self._seed = secrets.randbits(64)
        self._packed: OrderedDict[tuple[Coding, bytes], bytes] = OrderedDict()
        self.held = 0  # bytes remembered

    async def pack(self, body: Body, coding: Coding) -> bytes:
        """Return a body in a coding."""
        if size(body) < REMEMBERED_FROM_BYTES:
            return compress(body, coding)
        key = coding, self._digest(body)
        if (found := self._packed.get(key)) is not None:
            self._packed.move_to_end(key)
            return found
        packed = await compressed(body, coding)
        self._remember(key, packed)
        return packed

    def _digest(self, body: Body) -> bytes:
        digest = xxhash.xxh3_128(seed=self._seed)
        for piece in pieces(body):
            digest.update(piece)
        return digest.digest()

    def _remember(self, key: tuple[Coding, bytes], packed: bytes) -> None:
        # Somebody else may have packed the same while a thread packed this.
        self.held += len(packed) - len(self._packed.pop(key, b""))
        self._packed[key] = packed
        while self.held > self._room:
            _, oldest = self._packed.popitem(last=False)
            self.held -= len(oldest)
