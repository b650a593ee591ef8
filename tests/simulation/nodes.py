"""Real nodes that can be killed, suspended, restarted, added, and given processors of their own."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elasticsearch import ApiError, AsyncElasticsearch, TransportError

from embedded import EmbeddedCluster, NodeOptions
from embedded.embedded_cluster import is_cluster_ready

_HEAP_MB = 512
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 240
_STOP_SECONDS = 60
# The least that Elasticsearch allows: how often it looks at the disks.
_SETTINGS = {"cluster.info.update.interval": "10s"}


@dataclass
class ClusterNodes:
    """A running cluster, and a client that tolerates the injected faults."""

    cluster: EmbeddedCluster
    client: AsyncElasticsearch
    # Nodes that end soon: `complete` must not take them for running ones.
    _killed: set[int] = field(default_factory=set)

    @property
    def urls(self) -> list[str]:
        return self.cluster.urls

    def pid(self, number: int) -> int:
        return self.cluster.processes[number].pid

    def kill(self, number: int) -> None:
        self._signal(number, signal.SIGKILL)
        self._killed.add(number)

    def freeze(self, number: int) -> None:
        """Suspend a node: its connections stay open, but it does not respond."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, what: signal.Signals) -> None:
        self.cluster.processes[number].send_signal(what)

    async def stop(self, number: int) -> None:
        """Stop a node as its service manager does, and wait until it has ended."""
        self.cluster.processes[number].request_stop()
        await self._finish(number)

    async def add(self) -> int:
        """Add a node, and wait until it has joined and taken its share of the shards."""
        number = await asyncio.to_thread(self.cluster.add)
        await self.whole()
        return number

    async def remove_last(self) -> None:
        """Move all shards off the last node, and stop it."""
        name = self.cluster.processes[-1].name
        await self._exclude(name)
        while any(row["node"] for row in await self._rows("shards") if name in (row["node"] or "")):  # noqa: ASYNC110 - Elasticsearch sends no event
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(self.cluster.remove_last)
        await self._exclude(None)
        await self.whole()

    async def _exclude(self, name: str | None) -> None:
        await self.client.cluster.put_settings(persistent={"cluster.routing.allocation.exclude._name": name})

    async def complete(self) -> None:
        """Restart all nodes that have ended, and wait until the cluster has recovered."""
        while self._killed:
            await self._finish(self._killed.pop())
        dead = [number for number, process in enumerate(self.cluster.processes) if process.exit_code is not None]
        for number in dead:
            await asyncio.to_thread(self.cluster.restart, number)
        # The others may still count a node that has just left.
        await asyncio.gather(*(self._joined(number) for number in dead))
        await self.whole()

    async def _joined(self, number: int) -> None:
        while not await asyncio.to_thread(is_cluster_ready, self.urls[number], len(self.urls)):  # noqa: ASYNC110 - Elasticsearch sends no event
            await asyncio.sleep(_LOOK_SECONDS)

    async def _finish(self, number: int) -> None:
        await asyncio.to_thread(self.cluster.processes[number].finish, _STOP_SECONDS)

    async def master(self) -> int:
        [row] = await self._rows("master")
        return self._number(row["node"])

    async def holder(self, index: str) -> int:
        """Return the node with the primary of an index's first shard."""
        rows = await self._rows("shards", index=index)
        return next(self._number(row["node"]) for row in rows if (row["prirep"], row["shard"]) == ("p", "0"))

    async def number(self, node_id: str) -> int:
        """Return the number of a node by Elasticsearch's own id of it."""
        nodes = (await self.client.nodes.info(node_id=node_id, filter_path="nodes.*.name"))["nodes"]
        return self._number(nodes[node_id]["name"])

    async def shards_on(self, number: int) -> int:
        name = self.cluster.processes[number].name
        return sum(row["node"] == name for row in await self._rows("shards"))

    async def _rows(self, what: str, **options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await getattr(self.client.cat, what)(format="json", **options)).body
        return found

    def _number(self, name: str) -> int:
        return [process.name for process in self.cluster.processes].index(name)

    async def whole(self) -> float:
        """Wait until all nodes have joined and all shards are allocated and stable; return seconds."""
        count = len(self.cluster.processes)
        return await self._healthy(
            wait_for_nodes=str(count), wait_for_status="green", wait_for_no_relocating_shards=True
        )

    async def recovered(self, nodes: int) -> float:
        """Wait until this number of nodes agree and every shard has a copy that responds; return seconds."""
        return await self._healthy(wait_for_nodes=str(nodes), wait_for_status="yellow")

    async def recovered_from_loss(self) -> None:
        """Wait until the other nodes agree that one is gone."""
        await self._healthy(wait_for_nodes=str(len(self.urls) - 1))

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
async def running(options: NodeOptions) -> AsyncIterator[ClusterNodes]:
    """Run a cluster, and a client that retries requests to dead nodes."""
    cluster = EmbeddedCluster(options)
    await asyncio.to_thread(cluster.start)
    try:
        async with AsyncElasticsearch(cluster.urls, request_timeout=10, max_retries=3, retry_on_timeout=True) as client:
            yield ClusterNodes(cluster, client.options(ignore_status=408))
    finally:
        await asyncio.to_thread(cluster.stop)


def three_nodes() -> AbstractAsyncContextManager[ClusterNodes]:
    return running(NodeOptions(nodes=3, ephemeral=True, heap_mb=_HEAP_MB, settings=_SETTINGS))


async def search_tasks(client: AsyncElasticsearch, prefix: str) -> list[float]:
    """Return the age in seconds of each running search in indices with a prefix."""
    # The client warns of its own method for tasks, which is in preview.
    sent = {"accept": "application/vnd.elasticsearch+json; compatible-with=9"}
    answer = await client.perform_request("GET", "/_tasks?actions=*search*&detailed=true", headers=sent)
    tasks = [task for node in answer.body["nodes"].values() for task in node["tasks"].values()]
    return [task["running_time_in_nanos"] / 1e9 for task in tasks if prefix in task.get("description", "")]


@contextmanager
def separate_cpus(nodes: Iterable[int]) -> Iterator[None]:
    """Pin processes to the first CPU, and this one with its children to the others. Linux only."""
    pids = [*nodes]
    everywhere = os.sched_getaffinity(0)
    first = min(everywhere)
    _keep(pids, {first})
    os.sched_setaffinity(0, everywhere - {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)
        _keep(pids, everywhere)


def _keep(pids: Iterable[int], processors: set[int]) -> None:
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)
