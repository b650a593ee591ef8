"""What an installation needs, from what one listing takes."""

import json
from dataclasses import replace

import pytest

from brokerage.size import SLOPES, Slopes, size_of
from tests.brokerage.conftest import invoke

# A listing of 1 KB that takes a quarter of that in the index, and round times.
_ROUND = Slopes(
    source_bytes=1_000,
    index_share=0.25,
    packed_share=0.1,
    copy_service=10,
    copy_engine=40,
    change_service=20,
    change_engine=80,
    packing=10,
    update=500,
    loaded_a_second=5_000,
    rebuilt_a_second=4_000,
)
_DAY = 86_400


def test_what_ten_million_listings_need() -> None:
    found = size_of(10_000_000, _DAY, 864, 1_000, _ROUND)
    assert (found.source_bytes, found.index_bytes, found.shards) == (10e9, 2.5e9, 1)
    assert found.peak_disk_bytes == 15e9  # three generations with a replica
    assert (found.load_seconds, found.rebuild_seconds, found.update_seconds_a_day) == (2_000, 2_500, 43.2)
    # 864 partners read 100,000 listings and 864 changes a second, and one listing is updated.
    assert found.listings_a_second == 100_864
    assert found.network_bytes_a_second == pytest.approx(100_864 * 100)
    # Service: 100,000 x 20 µs and 864 x 30 µs are 2.03 processors, 2.9 that are 70 % busy.
    # Elasticsearch: 100,000 x 40 µs, 864 x 80 µs and 500 µs are 4.07 processors, 5.8 on three nodes.
    assert (found.workers, found.nodes, found.node_cores) == (3, 3, 2)
    assert found.node_memory_bytes == pytest.approx(4e9 + 5e9 / 3)
    assert found.node_disk_bytes * 3 * 0.85 == pytest.approx(15e9)
    assert found.cores == 3 * 2 + 3 + 1


def test_what_must_grow_grows() -> None:
    few = size_of(1_000_000, 50_000, 10, 6_000)
    many = size_of(2_000_000_000, 100_000_000, 1_000, 6_000)
    assert (few.nodes, few.workers, few.shards) == (3, 3, 1)
    assert many.nodes > 3 * few.nodes
    assert many.workers > 10 * few.workers
    assert many.shards > 50
    assert many.node_disk_bytes <= 4e12
    assert many.node_cores <= 16
    slower = size_of(1_000_000, 50_000, 10, 6_000, replace(SLOPES, update=2 * SLOPES.update))
    assert slower.update_seconds_a_day == pytest.approx(2 * few.update_seconds_a_day)


def test_a_listing_of_half_the_bytes_takes_more_than_half() -> None:
    """It has as many search fields, and they are parsed, indexed and searched alike."""
    whole, half = (size_of(10_000_000, _DAY, 864, size, _ROUND) for size in (1_000, 500))
    assert half.source_bytes == whole.source_bytes / 2
    assert half.index_bytes == pytest.approx(0.7 * whole.index_bytes)
    for what in ("load_seconds", "rebuild_seconds", "update_seconds_a_day"):
        assert getattr(half, what) == pytest.approx(0.85 * getattr(whole, what))


def test_ten_million_listings_of_three_kilobytes_take_about_what_they_took() -> None:
    """Measured with 10,000,000 (decision 70)."""
    found = size_of(10_000_000, 50_000, 1, 3_000)
    assert found.index_bytes == pytest.approx(17.7e9, rel=0.1)
    assert found.load_seconds == pytest.approx(2_250, rel=0.1)


def test_sizes_are_printed_without_a_cluster() -> None:
    printed = invoke("size", "--listings", "1000000", environment={})
    assert printed.returncode == 0, printed.stderr
    rows = dict(line.split(maxsplit=1) for line in printed.stdout.splitlines()[1:] if not line.startswith("Disk at"))
    assert rows["Shards"].startswith("1 ")
    assert "50,000 listings" in rows["Updates"]
    assert rows["Nodes"].startswith("3 ")
    as_json = json.loads(invoke("size", "--listings", "1000000", "--json", environment={}).stdout)
    expected = size_of(1_000_000, 50_000, 10, SLOPES.source_bytes)
    assert (as_json["index_bytes"], as_json["cores"]) == (round(expected.index_bytes), expected.cores)


@pytest.mark.parametrize("arguments", [(), ("--listings", "0"), ("--listings", "5", "--kilobytes", "0")])
def test_what_is_no_size_is_refused(arguments: tuple[str, ...]) -> None:
    refused = invoke("size", *arguments, environment={})
    assert refused.returncode == 2
    assert "--kilobytes" in refused.stderr if "--kilobytes" in arguments else "--listings" in refused.stderr
