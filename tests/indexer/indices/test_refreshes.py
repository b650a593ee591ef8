"""Refreshes and positions while copies of shards come and go: faults are put into real responses."""

from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

from cluster.client import Cluster
from cluster.connection import ConnectionSettings
from indexer.errors import ElasticsearchError
from indexer.generations.lifecycle import refresh_completely, refresh_to_seq_nos
from tests.indexer.client_requests import behind
from tests.indexer.conftest import Bench

SECONDS = 10.0


@pytest.fixture
async def index(client: AsyncElasticsearch, connection: ConnectionSettings) -> str:
    """An index of two shards, each with a replica that no node takes, and a document."""
    name = f"{connection.prefix}shards"
    await client.indices.create(index=name, settings={"number_of_shards": 2, "number_of_replicas": 1})
    await client.index(index=name, id="a", document={})
    return name


def unreached(body: dict[str, Any]) -> None:
    """Let a refresh not have reached a copy, which Elasticsearch does not call a failure."""
    body["_shards"]["successful"] -= 1


@pytest.mark.parametrize("faults", [0, 1], ids=["a replica on no node delays none", "one that was not reached"])
async def test_a_refresh_is_repeated_until_it_has_reached_every_copy(
    client: AsyncElasticsearch, index: str, faults: int
) -> None:
    with behind(client, "POST /_refresh", *[unreached] * faults) as refreshes:
        await refresh_completely(Cluster.over(client, SECONDS), index)
    assert refreshes.count == 1 + faults


async def test_a_refresh_that_does_not_reach_every_copy_in_time_fails(client: AsyncElasticsearch, index: str) -> None:
    with (
        behind(client, "POST /_refresh", unreached, unreached),
        pytest.raises(ElasticsearchError, match="could not be refreshed in every copy"),
    ):
        await refresh_completely(Cluster.over(client, 0.0), index)


async def test_a_shard_that_statistics_leave_out_is_waited_for(bench: Bench, index: str) -> None:
    def without_a_shard(body: dict[str, Any]) -> None:
        body["indices"][index]["shards"].pop("0")

    with behind(bench.client, "GET /_stats/docs", without_a_shard) as reads:
        assert sorted(await refresh_to_seq_nos(bench.engine().cluster, index)) == [-1, 0]
    assert reads.count == 2
    with (
        behind(bench.client, "GET /_stats/docs", without_a_shard),
        pytest.raises(ElasticsearchError, match="is red"),
    ):
        await refresh_to_seq_nos(bench.engine(retry_seconds=0.0).cluster, index)


async def test_writes_that_not_all_copies_have_are_beyond_the_position(bench: Bench, index: str) -> None:
    def ahead(body: dict[str, Any]) -> None:
        for copies in body["indices"][index]["shards"].values():
            for copy in copies:
                copy["seq_no"] |= {"max_seq_no": 7, "local_checkpoint": 7}

    with behind(bench.client, "GET /_stats/docs", ahead):
        assert sorted(await refresh_to_seq_nos(bench.engine().cluster, index)) == [-1, 0]


async def test_a_count_leaves_out_no_shard(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    name = f"{connection.prefix}half"
    everything: dict[str, Any] = {"match_all": {}}
    settings = {"number_of_shards": 2, "number_of_replicas": 0, "routing.allocation.total_shards_per_node": 1}
    await client.indices.create(index=name, settings=settings, wait_for_active_shards=0)
    await client.cluster.health(index=name, wait_for_active_shards=1)
    with pytest.raises(Exception, match="search_phase_execution_exception"):
        await Cluster.over(client, 0.0).count_completely(name, everything)
    await client.indices.put_settings(index=name, settings={"routing.allocation.total_shards_per_node": 2})
    assert await Cluster.over(client, SECONDS).count_completely(name, everything) == 0
