"""Numbers of shards and replicas, by resource, and what is wrong with others."""

from __future__ import annotations

import pytest

from cluster.settings import SettingError, load_settings
from indexer.settings import IndexerSettings
from indexer.shard_settings import AUTO, ONE_SHARD_EACH, ShardRequest, replica_settings


@pytest.mark.parametrize(
    ("entries", "listings", "agents"),
    [
        (("3",), 3, 3),
        (("listings=3",), 3, 1),
        (("listings=auto", "agents=7"), AUTO, 7),
        (("2", "listings=24"), 24, 2),
        (("auto",), AUTO, AUTO),
    ],
)
def test_shards_are_for_all_resources_or_by_resource(entries: tuple[str, ...], listings: int, agents: int) -> None:
    """Others have one."""
    request = ShardRequest(entries)
    assert (request.shards("listings"), request.shards("agents")) == (listings, agents)


def test_one_shard_and_a_replica_on_a_second_node_are_the_default() -> None:
    """As before."""
    assert ONE_SHARD_EACH.shards("listings") == 1
    assert replica_settings(IndexerSettings()) == {"index.auto_expand_replicas": "0-1"}


@pytest.mark.parametrize("text", ["0", "-1", "1025", "many", "listings=", "3.5", "listings=x", ""])
def test_invalid_numbers_of_shards_are_named(text: str) -> None:
    """With what is possible."""
    with pytest.raises(SettingError, match=r"is not a number of shards: use 1 to 1,024, or auto"):
        ShardRequest((text,))


def test_unknown_resources_are_named() -> None:
    """An unknown name would silently have no effect."""
    with pytest.raises(SettingError, match=r"set for 'listing'; the resources are agents, companies, listings"):
        ShardRequest(("listing=3",))


def test_a_shard_has_some_size() -> None:
    """The number of shards is the size divided by it."""
    with pytest.raises(SettingError, match=r"A shard of 0 gigabytes is impossible"):
        ShardRequest(("auto",), 0.0)


def replicas(text: str) -> IndexerSettings:
    """Return the settings of an environment."""
    return load_settings(IndexerSettings, {"BROKERAGE_REPLICAS": text})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", {"index.auto_expand_replicas": False, "index.number_of_replicas": 2}),
        ("0", {"index.auto_expand_replicas": False, "index.number_of_replicas": 0}),
        ("0-all", {"index.auto_expand_replicas": "0-all"}),
    ],
)
def test_replicas_are_a_number_or_follow_the_nodes(text: str, expected: object) -> None:
    """As Elasticsearch expects them."""
    assert replica_settings(replicas(text)) == expected


@pytest.mark.parametrize("text", ["", "one", "-1", "1-", "1.5"])
def test_invalid_replicas_are_named(text: str) -> None:
    """With what is possible."""
    with pytest.raises(SettingError, match=r"BROKERAGE_REPLICAS is .*a number of replicas such as 1, or a range"):
        replica_settings(replicas(text))
