"""The connection and settings that every operation of the indexer shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.shard_settings import ONE_SHARD_EACH

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from indexer.settings import IndexerSettings
    from indexer.shard_settings import ShardRequest


@dataclass(frozen=True)
class IndexerContext:
    """A client, its connection settings and the indexer's settings. The caller closes the client.

    No command asks for more than one shard yet (decision 33).
    """

    client: AsyncElasticsearch
    connection: ConnectionSettings
    settings: IndexerSettings
    shards: ShardRequest = ONE_SHARD_EACH
