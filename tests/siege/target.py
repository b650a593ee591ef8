"""What attackers are given: an address, keys of their own, and the size of an attack."""

import asyncio
import socket
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from service.keys.store import KeyStore

# A stalled reader's own buffer: the least that the kernel allows, so that the service's fill up at once.
_RECEIVE_BYTES = 2048
_HURRIED_BYTES = 2**20
_PAUSE_SECONDS = 0.05
_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class SiegeTarget:
    """The service under attack. `outcomes` counts what attackers received, by attack and reason."""

    url: str
    keys: tuple[str, ...]  # of the attackers
    connections: int  # of each attack
    hold_seconds: float = 60.0  # how long an attacker leaves an answer unread
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # paths of published files
    store: KeyStore | None = None  # creates and revokes keys
    # Seconds for which revoked keys received anything, by what they read.
    withdrawals: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def counter(self, attack: str) -> Counter[str]:
        return self.outcomes.setdefault(attack, Counter())

    def key(self, number: int) -> str:
        return self.keys[number % len(self.keys)]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection that takes as little as possible."""
        address = urlsplit(self.url)
        with ExitStack() as stack:
            raw = stack.enter_context(socket.socket())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            raw.setblocking(False)
            await asyncio.get_running_loop().sock_connect(raw, (address.hostname, address.port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=_RECEIVE_BYTES)
            stack.pop_all()
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    @staticmethod
    def hurry(writer: asyncio.StreamWriter) -> None:
        """Let a connection take what it is sent at once."""
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HURRIED_BYTES)


Attack = Callable[[SiegeTarget], Awaitable[None]]


def request_bytes(path: str, key: str) -> bytes:
    headers = f"Host: siege\r\nConnection: close\r\nx-api-key: {key}\r\nAccept-Encoding: identity"
    return f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode()


async def repeatedly(count: int, attempt: Callable[[int], Awaitable[str]], outcomes: Counter[str]) -> None:
    """Let `count` connections attempt the same for ever, and count what they receive."""

    async def again(number: int) -> None:
        while True:
            try:
                outcomes[await attempt(number)] += 1
            except (OSError, EOFError, aiohttp.ClientError, asyncio.LimitOverrunError) as error:
                outcomes[type(error).__name__] += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    connections = [asyncio.create_task(again(number)) for number in range(count)]
    try:
        await asyncio.gather(*connections)
    finally:
        await _end(connections)


async def _end(connections: list[asyncio.Task[None]]) -> None:
    """Cancel connections until all have ended: one that fails at that moment goes on."""
    while pending := [task for task in connections if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_PAUSE_SECONDS)
    await asyncio.gather(*connections, return_exceptions=True)


def session_of(target: SiegeTarget) -> aiohttp.ClientSession:
    """Return a session with as many connections as an attack has."""
    connector = aiohttp.TCPConnector(limit=target.connections)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))


async def json_page(session: aiohttp.ClientSession, target: SiegeTarget, path: str, attack: str) -> dict[str, Any]:
    """Return a page that an attack begins with; other attackers use up the rate of the key."""
    while True:
        async with session.get(target.url + path, headers={"x-api-key": target.key(0)}) as answer:
            page: dict[str, Any] = await answer.json(content_type=None)
        if answer.status == HTTPStatus.OK:
            return page
        target.counter(attack)[f"{answer.status} {page.get('code', '')}"] += 1
        await asyncio.sleep(_RETRY_SECONDS)


async def received(session: aiohttp.ClientSession, url: str | URL, headers: Mapping[str, str]) -> str:
    """Return the status of an answer, with its reason if it is a refusal."""
    async with session.get(url, headers=headers) as answer:
        if answer.status < 400:
            await answer.read()
            return str(answer.status)
        return await refusal(answer)


async def refusal(answer: aiohttp.ClientResponse) -> str:
    """Return the status and the problem code of a refusal."""
    try:
        return f"{answer.status} {(await answer.json(content_type=None))['code']}"
    except (ValueError, KeyError, TypeError):
        return str(answer.status)
