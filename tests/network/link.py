"""One connection through the proxy: two halves, and what is done to the bytes between them."""

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

# From what has come of an answer to the number of bytes behind which it is cut; None: not yet.
Cut = Callable[[bytes], int | None]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_READ_BYTES = 65_536
# With this option a connection that is closed is reset: what was sent may be lost, and the other side gets an error.
_RESET = struct.pack("ii", 1, 0)


@dataclass(kw_only=True)
class Way:
    """One direction: what is done to the bytes on it, those of open connections too."""

    chance: random.Random
    delay: float = 0.0  # seconds
    jitter: float = 0.0  # further seconds at most, evenly spread
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    def freeze(self) -> None:
        """Hold back all bytes; connections stay open, and new ones are accepted."""
        self.is_open.clear()

    def heal(self) -> None:
        """Let bytes pass at once."""
        self.delay = self.jitter = 0.0
        self.is_open.set()

    def due(self, previous: float) -> float:
        """Return when a piece that comes now is passed on: never before the one that came before it."""
        now = asyncio.get_running_loop().time()
        return max(previous, now + self.delay + self.chance.random() * self.jitter)


@dataclass(frozen=True)
class Ways:
    """Both directions, and how answers are cut."""

    to_node: Way
    to_service: Way
    on_request: Callable[[bytes], Cut | None]  # called with each piece of a request: how its response is cut, if at all
    let_pass: Callable[[bytes], Awaitable[None]]  # called before with the same piece: returns once it may pass


class Link:
    """A connection of the service, and its continuation to the node."""

    def __init__(self, service: Stream, node: Stream, ways: Ways) -> None:
        self._service, self._node, self._ways = service, node, ways
        self._answer = bytearray()  # what has come since the last request
        self._cut: Cut | None = None
        self.was_cut = False

    async def carry(self) -> None:
        """Pass bytes on until either side ends or an answer is cut, then close both."""
        requests: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        answers: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        # A service that hangs up is heard of at once, whatever is delayed; a node's end comes behind its last bytes.
        ends = [
            asyncio.create_task(_receive(self._service[0], self._ways.to_node, requests)),
            asyncio.create_task(self._ask(requests)),
            asyncio.create_task(self._reply(answers)),
        ]
        receiving = asyncio.create_task(_receive(self._node[0], self._ways.to_service, answers))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, receiving):
                task.cancel()
            self.close()

    def close(self) -> None:
        """Drop both halves; what was not passed on is lost."""
        for _, half in (self._service, self._node):
            half.transport.abort()

    def reset(self) -> None:
        """Drop both halves, with an error on either side."""
        for _, half in (self._service, self._node):
            reset(half)

    async def _ask(self, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        while piece := await _due(queue, self._ways.to_node):
            await self._ways.let_pass(piece)
            self._answer.clear()
            self._cut = self._ways.on_request(piece)
            if not await _write(self._node[1], piece):
                return

    async def _reply(self, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        writer = self._service[1]
        while piece := await _due(queue, self._ways.to_service):
            passed = piece if self._cut is None else self._kept(piece, self._cut)
            if not await _write(writer, passed):
                return
            if len(passed) < len(piece) or self.was_cut:
                break
        # In order, behind what was passed on: the reader has to notice by itself what is missing.
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def _kept(self, piece: bytes, cut: Cut) -> bytes:
        before = len(self._answer)
        self._answer += piece
        at = cut(bytes(self._answer))
        if at is None or at > len(self._answer):
            return piece
        self.was_cut = True
        return piece[: max(0, at - before)]


async def _receive(reader: asyncio.StreamReader, way: Way, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
    """Take what comes, with when it is to be passed on, until the end, which is an empty piece."""
    due, data = 0.0, b"more"
    while data:
        try:
            data = await reader.read(_READ_BYTES)
        except OSError:
            data = b""
        due = way.due(due)
        queue.put_nowait((due, data))


async def _due(queue: asyncio.Queue[tuple[float, bytes]], way: Way) -> bytes:
    """Return the next piece once it is due and its way is open."""
    moment, piece = await queue.get()
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
    await way.is_open.wait()
    return piece


async def _write(writer: asyncio.StreamWriter, piece: bytes) -> bool:
    """Pass a piece on; False if the peer is gone."""
    try:
        writer.write(piece)
        await writer.drain()
    except OSError:
        return False
    return True


def reset(half: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets an error."""
    # A connection that is already lost has no socket.
    with suppress(OSError, AttributeError):
        half.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    half.transport.abort()
