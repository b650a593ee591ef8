"""A proxy in front of one server that breaks connections the way networks do; with a certificate it speaks TLS."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from tests.neighbours import steady_port
from tests.network.link import Cut, Link, Way, Ways, reset
from tests.network.server import Connection, Server


class Proxy:
    """Passes bytes on while it is `running`; faults are attributes and calls, and `heal` ends them all."""

    def __init__(self, target: str, seed: int = 7, certificate: ssl.SSLContext | None = None) -> None:
        """Pass everything on to the server at an address such as `http://127.0.0.1:9200`."""
        self._chance = random.Random(seed)  # noqa: S311 - faults that come again, no secrets
        self.to_node = Way(chance=self._chance)
        self.to_service = Way(chance=self._chance)
        self.resets_new = False
        self.cutting: Callable[[], Cut | None] | None = (
            None  # called at each request: how its response is cut, if at all
        )
        self.cuts = 0  # responses that were cut
        self.heads: list[str] = []  # the first lines of requests
        self.held = 0  # requests that are held now
        self._held_target: str | None = None
        self._released = asyncio.Event()
        self._target = urlsplit(target)
        self._links: set[Link] = set()
        self._server = Server(self._pass_on, certificate, steady_port())

    @property
    def url(self) -> str:
        """The address to use in place of the target's; it stays the same through `refuse` and `heal`."""
        return self._server.url

    @property
    def connections(self) -> int:
        """Connections that are open through it."""
        return len(self._links)

    @property
    def accepted(self) -> int:
        """Connections that were ever opened."""
        return self._server.accepted

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Listen until the end."""
        await self.heal()
        try:
            yield self
        finally:
            self.refuse()
            await self._server.stop()

    async def heal(self) -> None:
        """End every fault."""
        self.to_node.heal()
        self.to_service.heal()
        self.resets_new, self.cutting = False, None
        self._held_target = None
        self._released.set()
        await self._server.start()

    def hold(self, target: str) -> None:
        """Hold the requests whose first line contains this; all others pass."""
        self._held_target = target
        self._released.clear()

    def freeze(self) -> None:
        """Accept connections and pass nothing, in either direction."""
        self.to_node.freeze()
        self.to_service.freeze()

    def refuse(self) -> None:
        """Stop listening and reset what is open, as a host does whose process has ended."""
        self._server.refuse()
        self.reset()

    def reset(self, share: float = 1.0) -> int:
        """Reset a share of the open connections and return how many."""
        chosen = [link for link in self._links if self._chance.random() < share]
        for link in chosen:
            link.reset()
        return len(chosen)

    async def _pass_on(self, connection: Connection) -> None:
        if self.resets_new:
            reset(connection.writer)
            return
        try:
            node = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            reset(connection.writer)
            return
        link = Link(
            (connection.reader, connection.writer),
            node,
            Ways(self.to_node, self.to_service, self._asked, self._let_pass),
        )
        self._links.add(link)
        try:
            await link.carry()
        finally:
            self._links.discard(link)
            self.cuts += link.was_cut

    async def _let_pass(self, piece: bytes) -> None:
        """Return at once, or when a request that is held is released."""
        if self._held_target is None or self._held_target.encode() not in piece.partition(b"\r\n")[0]:
            return
        self.held += 1
        try:
            await self._released.wait()
        finally:
            self.held -= 1

    def _asked(self, piece: bytes) -> Cut | None:
        first = piece.partition(b"\r\n")[0]
        if first.endswith(b" HTTP/1.1"):
            self.heads.append(first.decode())
        return None if self.cutting is None else self.cutting()


@asynccontextmanager
async def proxied(urls: Sequence[str]) -> AsyncIterator[list[Proxy]]:
    """Run a proxy in front of each server."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Proxy(url, seed).running()) for seed, url in enumerate(urls)]
