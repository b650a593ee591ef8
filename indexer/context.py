"""The connection and settings that every operation of the indexer shares."""

from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from indexer.settings import IndexerSettings
from indexer.shard_settings import ShardRequest


@dataclass(frozen=True)
class IndexerContext:
    """A client, its connection settings and the indexer's settings. The caller closes the client."""

    client: AsyncElasticsearch
    connection: ConnectionSettings
    settings: IndexerSettings

    @property
    def shards(self) -> ShardRequest:
        """How many shards the indices of full rebuilds have."""
        return ShardRequest(self.settings.shards, self.settings.shard_gigabytes)
