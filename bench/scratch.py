"""Where a measurement of the indexer runs: a node, and indices of its own that are deleted at the end."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from bench.loading import unload
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings


@contextmanager
def node_url() -> Iterator[str]:
    """Yield the address in ELASTICSEARCH_URL, or else that of a new node."""
    if url := os.environ.get("ELASTICSEARCH_URL"):
        yield url
        return
    with EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        yield cluster.url


@asynccontextmanager
async def scratch_indexer(url: str, settings: IndexerSettings) -> AsyncIterator[IndexerContext]:
    """Yield an indexer context under a new prefix, whose indices are deleted at the end."""
    connection = ConnectionSettings(url=(url,), prefix=f"bench-{secrets.token_hex(4)}-")
    async with connect(connection, connections=8, timeout=600) as client:
        try:
            yield IndexerContext(client, connection, settings)
        finally:
            await unload(connection)
