"""Numbers of shards and replicas, by resource, and what is wrong with others."""

import pytest

from cluster.settings import SettingError, load_settings
from indexer.settings import AUTO, IndexerSettings, ShardRequest, replica_settings


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
    request = ShardRequest(entries)
    assert (request.shards("listings"), request.shards("agents")) == (listings, agents)


def test_one_shard_and_a_replica_on_a_second_node_are_the_default() -> None:
    assert ShardRequest(IndexerSettings().shards).shards("listings") == 1
    assert replica_settings(IndexerSettings().replicas) == {"index.auto_expand_replicas": "0-1"}


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        *(
            ("BROKERAGE_SHARDS", text, r"is not a number of shards: use a number from 1 to 1,024, or auto")
            for text in ("0", "-1", "1025", "many", "listings=", "3.5", "listings=x", "2,listings=", "Auto")
        ),
        ("BROKERAGE_SHARDS", "", "BROKERAGE_SHARDS is empty: use a number"),
        ("BROKERAGE_SHARDS", "listing=3", r"BROKERAGE_SHARDS names 'listing'; the resources are agents, companies,"),
        ("BROKERAGE_SHARDS", "3,5", r"BROKERAGE_SHARDS=3,5 gives two numbers for the same resources"),
        ("BROKERAGE_SHARDS", "agents=3,agents=auto", r"gives two numbers for the same resources"),
        ("BROKERAGE_SHARD_GB", "0", r"BROKERAGE_SHARD_GB is 0: use a number of gigabytes above 0"),
        ("BROKERAGE_SHARD_GB", "nan", r"BROKERAGE_SHARD_GB is nan: use a number of gigabytes above 0"),
        *(
            ("BROKERAGE_REPLICAS", text, r"BROKERAGE_REPLICAS is .*a number of replicas such as 1, or a range")
            for text in ("", "one", "-1", "1-", "1.5")
        ),
    ],
)
def test_invalid_values_are_named_with_what_is_possible(variable: str, text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        load_settings(IndexerSettings, {variable: text})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", {"index.auto_expand_replicas": False, "index.number_of_replicas": 2}),
        ("0", {"index.auto_expand_replicas": False, "index.number_of_replicas": 0}),
        ("0-all", {"index.auto_expand_replicas": "0-all"}),
    ],
)
def test_replicas_are_a_number_or_follow_the_nodes(text: str, expected: object) -> None:
    assert replica_settings(text) == expected
