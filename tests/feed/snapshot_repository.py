"""Snapshots of a test's indices in a folder of the node, and their restore."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch


@dataclass(frozen=True)
class SnapshotRepository:
    """Snapshots of all indices with a prefix."""

    client: AsyncElasticsearch
    prefix: str

    async def take(self, name: str) -> None:
        """Take a snapshot of every index."""
        indices = f"{self.prefix}*"
        answer = await self.client.snapshot.create(
            repository=self.prefix, snapshot=name, indices=indices, include_global_state=False, wait_for_completion=True
        )
        assert answer["snapshot"]["state"] == "SUCCESS"

    async def restore(self, name: str, indices: str = "*", *, over_closed: bool = False) -> None:
        """Restore indices, by a pattern without the prefix: after their deletion, or over them once they are closed."""
        pattern = f"{self.prefix}{indices}"
        live = list(await self.client.indices.get(index=pattern))
        if over_closed:
            await self.client.indices.close(index=live)
        else:
            await self.client.indices.delete(index=live)
        answer = await self.client.snapshot.restore(
            repository=self.prefix, snapshot=name, indices=pattern, wait_for_completion=True
        )
        assert answer["snapshot"]["shards"]["failed"] == 0
        await self.client.cluster.health(index=pattern, wait_for_status="yellow")


@asynccontextmanager
async def snapshot_repository(client: AsyncElasticsearch, prefix: str) -> AsyncIterator[SnapshotRepository]:
    """Register a repository named after a prefix; its snapshots are deleted at the end."""
    await client.snapshot.create_repository(name=prefix, repository={"type": "fs", "settings": {"location": prefix}})
    yield SnapshotRepository(client, prefix)
    await client.snapshot.delete(repository=prefix, snapshot="*")
    await client.snapshot.delete_repository(name=prefix)
