"""A proxy before one node of Elasticsearch that breaks connections the way networks do."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from embedded.ports import HOST, free_ports
from tests.chaos.links import Link, Way, Ways, reset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.chaos.links import Cut


class Proxy:
    """Stands before one node while it is `running`; faults are attributes and calls, and `heal` ends them all."""

    def __init__(self, target: str, seed: int = 7) -> None:
        """Pass everything on to the node at an address such as `http://127.0.0.1:9200`."""
        self._chance = random.Random(seed)  # noqa: S311 - faults that come again, no secrets
        self.to_node = Way(chance=self._chance)
        self.to_service = Way(chance=self._chance)
        self.resets_new = False
        self.cutting: Callable[[], Cut | None] | None = None  # asked at each request: how its answer is cut, if at all
        self.cuts = 0  # answers that were cut
        self._port = free_ports(1)[0]
        self._target = urlsplit(target)
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address to use in place of the node's; it stays the same through `refuse` and `heal`."""
        return f"http://{HOST}:{self._port}"

    @property
    def connections(self) -> int:
        """Connections that are open through it."""
        return len(self._links)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Listen until the end."""
        await self.heal()
        try:
            yield self
        finally:
            self.refuse()
            while self._links:  # noqa: ASYNC110 - they end by themselves, in a few steps
                await asyncio.sleep(0)

    async def heal(self) -> None:
        """End every fault."""
        self.to_node.heal()
        self.to_service.heal()
        self.resets_new, self.cutting = False, None
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self._port)

    def freeze(self) -> None:
        """Accept connections and pass nothing, in either direction."""
        self.to_node.freeze()
        self.to_service.freeze()

    def refuse(self) -> None:
        """Stop listening and reset what is open, as a host does whose process has ended."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()

    def reset(self, share: float = 1.0) -> int:
        """Reset a share of the open connections and return how many."""
        chosen = [link for link in self._links if self._chance.random() < share]
        for link in chosen:
            link.reset()
        return len(chosen)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.resets_new:
            reset(writer)
            return
        try:
            node = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            reset(writer)
            return
        link = Link((reader, writer), node, Ways(self.to_node, self.to_service, self._cut))
        self._links.add(link)
        with suppress(asyncio.CancelledError):  # at the end of the program
            await link.carry()
        self._links.discard(link)
        self.cuts += link.was_cut

    def _cut(self) -> Cut | None:
        return None if self.cutting is None else self.cutting()


@asynccontextmanager
async def proxied(urls: Sequence[str]) -> AsyncIterator[list[Proxy]]:
    """Run a proxy before each node."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Proxy(url, seed).running()) for seed, url in enumerate(urls)]
