"""Three real nodes that can be killed, halted, and brought back."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elasticsearch import ApiError, AsyncElasticsearch, TransportError

from embedded import EmbeddedCluster, NodeOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

HEAP_MB = 512
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 240
# The least that Elasticsearch allows: how often it looks at the disks.
_SETTINGS = {"cluster.info.update.interval": "10s"}


@dataclass
class Nodes:
    """A running cluster and a client to it that is patient with the faults made here."""

    cluster: EmbeddedCluster
    client: AsyncElasticsearch

    @property
    def urls(self) -> list[str]:
        """Where the nodes answer, those that are down too."""
        return self.cluster.urls

    def pid(self, number: int) -> int:
        """Return the number of a node's process."""
        return self.cluster.processes[number].pid

    def kill(self, number: int) -> None:
        """End a node at once, as a power cut does."""
        self._signal(number, signal.SIGKILL)

    def freeze(self, number: int) -> None:
        """Halt a node: its connections stay open and nothing answers."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a halted node go on."""
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, what: signal.Signals) -> None:
        self.cluster.processes[number].send_signal(what)

    async def complete(self) -> None:
        """Start every node again that was killed, and wait until the cluster is whole."""
        dead = [number for number, process in enumerate(self.cluster.processes) if process.exit_code is not None]
        for number in dead:
            await asyncio.to_thread(self.cluster.restart, number)
        await self.whole()

    async def master(self) -> int:
        """Return which node is the elected master."""
        [row] = await self._rows("master")
        return self._number(row["node"])

    async def holder(self, index: str) -> int:
        """Return which node holds the primary of an index's first shard."""
        rows = await self._rows("shards", index=index)
        return next(self._number(row["node"]) for row in rows if (row["prirep"], row["shard"]) == ("p", "0"))

    async def _rows(self, what: str, **options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await getattr(self.client.cat, what)(format="json", **options)).body
        return found

    def _number(self, name: str) -> int:
        return [process.name for process in self.cluster.processes].index(name)

    async def whole(self) -> float:
        """Wait until all nodes are there, every copy of every shard is in place and nothing moves; return seconds."""
        count = len(self.cluster.processes)
        return await self._healthy(
            wait_for_nodes=str(count), wait_for_status="green", wait_for_no_relocating_shards=True
        )

    async def mended(self, nodes: int) -> float:
        """Wait until so many nodes agree and every shard has a copy that answers; return how many seconds that took."""
        return await self._healthy(wait_for_nodes=str(nodes), wait_for_status="yellow")

    async def _healthy(self, **wait: Any) -> float:
        started = time.monotonic()
        while time.monotonic() < started + _PATIENCE_SECONDS:
            try:
                health = await self.client.cluster.health(timeout="1s", **wait)
            except (ApiError, TransportError):
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                if not health["timed_out"]:
                    return time.monotonic() - started
        raise TimeoutError(f"the cluster did not come to {wait} within {_PATIENCE_SECONDS} seconds")


@asynccontextmanager
async def running(options: NodeOptions) -> AsyncIterator[Nodes]:
    """Run a cluster, and a client to it that asks again what a dead node did not answer."""
    cluster = EmbeddedCluster(options)
    await asyncio.to_thread(cluster.start)
    try:
        async with AsyncElasticsearch(cluster.urls, request_timeout=10, max_retries=3, retry_on_timeout=True) as client:
            yield Nodes(cluster, client.options(ignore_status=408))
    finally:
        await asyncio.to_thread(cluster.stop)


def three_nodes() -> AbstractAsyncContextManager[Nodes]:
    """Run a cluster of three whose data goes with it."""
    return running(NodeOptions(nodes=3, ephemeral=True, heap_mb=HEAP_MB, settings=_SETTINGS))
