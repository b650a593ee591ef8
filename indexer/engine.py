"""What every operation of the indexer works with: the client, the names behind the prefix, and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from indexer.settings import IndexerSettings


@dataclass(frozen=True)
class Engine:
    """The cluster as the indexer uses it. The client is the caller's to close."""

    client: AsyncElasticsearch
    connection: ConnectionSettings
    settings: IndexerSettings
