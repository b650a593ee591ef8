"""What was written to clients and not yet read: bounded per key and per worker, and in time.

A transport takes a whole response at once and keeps what the client does not read, for as long as the connection is
open. So connections are aborted whose client takes too little in a period, those of the key with most unread bytes when
a worker holds too many, and those whose key may no longer read what they are being sent.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import struct
import termios
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aiohttp import web

from service.limits.admission import UnreadResponses
from service.settings import ServiceSettings
from service.telemetry.observation import ABORTED_CONNECTIONS, LIMIT_REFUSALS

_SWEEP_SECONDS = 1.0
_NO_LINGER = struct.pack("ii", 1, 0)  # `struct linger`
# `tcpi_bytes_acked` of `struct tcp_info`, since Linux 4.1: bytes that the client has received.
_TCP_INFO_BYTES, _ACKNOWLEDGED_OFFSET = 128, 120
_uint64 = struct.Struct("Q")
_int = struct.Struct("i")

STALLED = ABORTED_CONNECTIONS.labels("stalled")
_CROWDED = ABORTED_CONNECTIONS.labels("unsent")
_WITHDRAWN = ABORTED_CONNECTIONS.labels("withdrawn")
_UNREAD_REFUSALS = LIMIT_REFUSALS.labels("unread")

_log = logging.getLogger("service")


class SendingConnection(Protocol):
    """A connection as the monitor sees it; `client` is its transport, also while it closes."""

    client: asyncio.Transport | None
    key_id: str
    response_bytes: int  # of the body that is being sent
    is_sending: bool  # a response, of which the transport may not have everything yet
    is_withdrawn: Callable[[], bool]  # whether the key may no longer read the last response


class _Period(NamedTuple):
    """The start of a period in which a client has to make progress."""

    started_at: float  # monotonic seconds
    acknowledged: int
    unsent: int


@dataclass(frozen=True)
class SendLimits:
    """How long a client may take, and how many bytes may wait for clients."""

    stall_seconds: float
    least_bytes_per_second: int
    bytes_per_key: int
    bytes_in_all: int
    room_seconds: float  # that a request waits for its key to read
    sweep_seconds: float = _SWEEP_SECONDS  # between two looks at all connections

    @classmethod
    def of(cls, settings: ServiceSettings) -> SendLimits:
        rate = settings.least_bytes_per_second
        per_key, in_all = settings.unsent_bytes_per_key, settings.unsent_bytes
        every = min(_SWEEP_SECONDS, settings.revocation_seconds / 5)
        return cls(settings.stall_seconds, rate, per_key, in_all, settings.queue_seconds, every)


class SendMonitor:
    """The connections of a process, and the bytes that their transports keep because clients do not read them."""

    def __init__(self, limits: SendLimits) -> None:
        self.limits = limits
        self.unsent_bytes = 0
        self._connections: set[SendingConnection] = set()
        self._periods: dict[SendingConnection, _Period] = {}
        # Connections whose buffer is over the high-water mark, the longest first, with the bytes in it at that time.
        self._paused: dict[SendingConnection, tuple[str, int]] = {}
        self._bytes_by_key: Counter[str] = Counter()
        self._responses_by_key: Counter[str] = Counter()
        # Set when a client of the key has read a response.
        self._has_read: dict[str, asyncio.Event] = {}

    def open(self, connection: SendingConnection) -> None:
        self._connections.add(connection)
        if connection.client is not None:
            _limit_unacknowledged(connection.client, self.limits.stall_seconds)

    def close(self, connection: SendingConnection) -> None:
        self._connections.discard(connection)
        self._periods.pop(connection, None)
        self.resume(connection)

    def pause(self, connection: SendingConnection) -> None:
        """Count what a transport keeps, now that it is over the high-water mark."""
        # The parts of a body are slices of one buffer, which stays in memory until the last of them is sent.
        unsent = max(buffered_bytes(connection), connection.response_bytes)
        self._paused[connection] = connection.key_id, unsent
        self._bytes_by_key[connection.key_id] += unsent
        self._responses_by_key[connection.key_id] += 1
        self.unsent_bytes += unsent
        if self.unsent_bytes > self.limits.bytes_in_all:
            # Not within the write that led here.
            asyncio.get_running_loop().call_soon(self._shed)

    def resume(self, connection: SendingConnection) -> None:
        """Count what a transport kept no longer."""
        if (paused := self._paused.pop(connection, None)) is None:
            return
        key_id, unsent = paused
        self.unsent_bytes -= unsent
        self._bytes_by_key[key_id] -= unsent
        self._responses_by_key[key_id] -= 1
        if not self._responses_by_key[key_id]:
            del self._bytes_by_key[key_id], self._responses_by_key[key_id]
        if (has_read := self._has_read.pop(key_id, None)) is not None:
            has_read.set()

    async def wait_for_room(self, key_id: str, size: int = 0) -> None:
        """Wait until a key may leave a response of `size` bytes unread; raise UnreadResponses if that takes too long.

        By default the response is expected to be like those that the key has not read. A key without any has room for
        one of any size.
        """
        if self._has_room(key_id, size):
            return
        try:
            async with asyncio.timeout(self.limits.room_seconds):
                while not self._has_room(key_id, size):
                    await self._has_read.setdefault(key_id, asyncio.Event()).wait()
        except TimeoutError:
            _UNREAD_REFUSALS.inc()
            raise UnreadResponses(self.limits.bytes_per_key) from None

    def _has_room(self, key_id: str, size: int) -> bool:
        if not (responses := self._responses_by_key.get(key_id)):
            return True
        unsent = self._bytes_by_key[key_id]
        return unsent + (size or unsent // responses) <= self.limits.bytes_per_key

    async def run(self) -> None:
        """Abort connections that stall or that may not go on, forever."""
        while True:
            await asyncio.sleep(self.limits.sweep_seconds)
            self.sweep()

    def sweep(self) -> None:
        """Abort connections whose key may no longer read what is sent, or whose client took too little in a period."""
        self._withdraw()
        now = time.monotonic()
        stalled = [connection for connection in self._connections if self._has_stalled(connection, now)]
        for connection in stalled:
            _abort(connection)
        if stalled:
            STALLED.inc(len(stalled))
            _log.warning("Closed %d connections whose clients read too slowly.", len(stalled))

    def _withdraw(self) -> None:
        withdrawn = [
            connection for connection in self._connections if connection.is_withdrawn() and has_more(connection)
        ]
        for connection in withdrawn:
            _reset(connection)
        if withdrawn:
            _WITHDRAWN.inc(len(withdrawn))
            keys = ", ".join(sorted({connection.key_id for connection in withdrawn}))
            _log.warning("Closed %d connections: keys are revoked or may read less: %s.", len(withdrawn), keys)

    def _has_stalled(self, connection: SendingConnection, now: float) -> bool:
        if not (unsent := buffered_bytes(connection)):
            self._periods.pop(connection, None)
            return False
        period, limits = self._periods.get(connection), self.limits
        if period is not None and now < period.started_at + limits.stall_seconds:
            return False
        acknowledged = acknowledged_bytes(connection)
        self._periods[connection] = _Period(now, acknowledged, unsent)
        if period is None:
            return False
        least = min(period.unsent, limits.least_bytes_per_second * limits.stall_seconds)
        return acknowledged - period.acknowledged < least

    def _shed(self) -> None:
        """Abort connections until the bytes in all are within the limit: of the key with the most, the longest one."""
        aborted = 0
        while self.unsent_bytes > self.limits.bytes_in_all:
            greediest = max(self._bytes_by_key, key=self._bytes_by_key.__getitem__)
            connection = next(each for each, (key_id, _) in self._paused.items() if key_id == greediest)
            self.resume(connection)
            _abort(connection)
            aborted += 1
        if aborted:
            _CROWDED.inc(aborted)
            _log.warning("Closed %d connections: too many bytes were waiting for clients to read them.", aborted)


def _limit_unacknowledged(transport: asyncio.Transport, seconds: float) -> None:
    """Let the kernel end a connection whose client takes nothing of what the kernel still has to send."""
    handle = _tcp_socket(transport)
    if handle is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def _tcp_socket(transport: asyncio.Transport) -> socket.socket | None:
    handle: socket.socket | None = transport.get_extra_info("socket")
    return None if handle is None or handle.family == socket.AF_UNIX else handle


def buffered_bytes(connection: SendingConnection) -> int:
    """Return how many bytes this process still keeps for a client."""
    return 0 if connection.client is None else connection.client.get_write_buffer_size()


def has_more(connection: SendingConnection) -> bool:
    """Whether anything of a response is still to reach the client."""
    if connection.is_sending or buffered_bytes(connection):
        return True
    handle = None if connection.client is None else _tcp_socket(connection.client)
    if handle is None:
        return False
    in_kernel = fcntl.ioctl(handle.fileno(), termios.TIOCOUTQ, bytes(_int.size))
    return bool(_int.unpack(in_kernel)[0])


def _reset(connection: SendingConnection) -> None:
    """Abort a connection, and discard what the kernel has not sent yet; an incomplete body ends with an error."""
    if connection.client is not None and (handle := _tcp_socket(connection.client)) is not None:
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    _abort(connection)


def _abort(connection: SendingConnection) -> None:
    # `close` would wait until the client has read the rest.
    if connection.client is not None:
        connection.client.abort()


def acknowledged_bytes(connection: SendingConnection) -> int:
    """Return a number that grows with the bytes that the client has received."""
    handle = None if connection.client is None else _tcp_socket(connection.client)
    if handle is not None and hasattr(socket, "TCP_INFO"):
        info = handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        if len(info) >= _ACKNOWLEDGED_OFFSET + _uint64.size:
            return int(_uint64.unpack_from(info, _ACKNOWLEDGED_OFFSET)[0])
    # Between two writes.
    return -buffered_bytes(connection)


SEND_MONITOR = web.AppKey("send monitor", SendMonitor)
