"""Loaded data is used again, is one segment, and can be removed."""

from elasticsearch import AsyncElasticsearch

from bench.facts import companies, identifiers
from bench.loading import load, unload
from bench.progress import Progress
from cluster.connection import ConnectionSettings
from mappings import LISTING

LISTINGS = 60


async def _generations(client: AsyncElasticsearch, prefix: str) -> dict[str, str]:
    """Return the UUIDs of all indices of listings by name."""
    found = await client.indices.get_settings(index=f"{prefix}listings-*")
    return {name: settings["settings"]["index"]["uuid"] for name, settings in found.items()}


async def test_data_is_loaded_once_used_again_and_removed(
    client: AsyncElasticsearch, connection: ConnectionSettings, prefix: str
) -> None:
    alias = connection.alias(LISTING)
    await load(connection, LISTINGS, Progress())
    first = await _generations(client, prefix)
    assert len(first) == 1
    assert (await client.count(index=alias))["count"] == LISTINGS
    [largest, *others] = await companies(connection)
    assert largest.listings + sum(each.listings for each in others) == LISTINGS
    shown = sorted(await identifiers(connection))
    assert (len(shown), shown[-1]) == (largest.listings, largest.last)

    # Nothing is loaded twice, and changed records are merged into one segment again.
    await client.update(index=alias, id=shown[0], doc={}, detect_noop=False, refresh=True)
    await load(connection, LISTINGS, Progress())
    assert await _generations(client, prefix) == first
    segments = await client.indices.stats(index=alias, metric="segments")
    assert segments["_all"]["primaries"]["segments"]["count"] == 1

    # Incomplete data is loaded again.
    await client.delete(index=alias, id=shown[0], refresh=True)
    await load(connection, LISTINGS, Progress())
    assert not first.items() & (await _generations(client, prefix)).items()

    await unload(connection)
    assert await client.indices.get(index=f"{prefix}*", expand_wildcards="all") == {}
