"""Preflight: how much room a disk has before its flood stage."""

from typing import Any

import pytest

from indexer import RefusedError
from indexer.generations.preflight import DiskSpace, parse_size, parse_used_share, preflight
from tests.indexer.conftest import Bench

FLOOD_STAGE = "cluster.routing.allocation.disk.watermark.flood_stage"
TERABYTE = 10**12


def disk(available: int, total: int = TERABYTE, roles: tuple[str, ...] = ("data", "master")) -> dict[str, Any]:
    """Return a node as in the node statistics."""
    return {"roles": list(roles), "fs": {"total": {"available_in_bytes": available, "total_in_bytes": total}}}


def room(nodes: list[dict[str, Any]], settings: dict[str, dict[str, str]]) -> int:
    """Return the most bytes for which there is room."""
    space = DiskSpace.of(nodes, settings)
    assert (space.problems(space.room), len(space.problems(space.room + 1))) == ([], 1)
    return space.room


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, TERABYTE // 20),
        ({"defaults": {FLOOD_STAGE: "95%", f"{FLOOD_STAGE}.max_headroom": "100GB"}}, TERABYTE // 20),
        ({"defaults": {FLOOD_STAGE: "95%", f"{FLOOD_STAGE}.max_headroom": "10GB"}}, 10 * 1024**3),
        ({"defaults": {f"{FLOOD_STAGE}.max_headroom": "10GB"}, "persistent": {FLOOD_STAGE: "90%"}}, TERABYTE // 10),
        ({"persistent": {FLOOD_STAGE: "90%", f"{FLOOD_STAGE}.max_headroom": "10GB"}}, 10 * 1024**3),
        ({"persistent": {FLOOD_STAGE: "90%"}, "transient": {FLOOD_STAGE: "0.8"}}, TERABYTE // 5),
        ({"defaults": {FLOOD_STAGE: "250mb"}}, 250 * 1024**2),
        ({"defaults": {"cluster.routing.allocation.disk.threshold_enabled": "false"}}, 0),
    ],
)
def test_the_flood_stage_is_kept_free(settings: dict[str, dict[str, str]], kept: int) -> None:
    assert room([disk(TERABYTE // 2)], settings) == TERABYTE // 2 - kept


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("512b", 512), ("4kb", 4096), ("1.5mb", 1_572_864), ("2GB", 2 * 1024**3), ("3t", 3 * 1024**4)),
        *((" 1pb", 1024**5), ("95%", None), ("0.95", None), ("-1", None), ("0", None)),
    ],
)
def test_sizes_are_read_as_the_engine_writes_them(text: str, size: int | None) -> None:
    assert parse_size(text) == size


def test_shares_are_read_as_the_engine_writes_them() -> None:
    assert (parse_used_share("95%"), parse_used_share("97.5%"), parse_used_share("0.9"), parse_used_share("1")) == (
        0.95,
        0.975,
        0.9,
        1.0,
    )


def test_the_data_node_with_the_most_room_counts() -> None:
    unwatched = {"defaults": {"cluster.routing.allocation.disk.threshold_enabled": "false"}}
    others = [disk(9 * TERABYTE, roles=("master",)), disk(9 * TERABYTE, roles=("data_frozen", "database"))]
    assert room([disk(5), disk(8, roles=("data_hot",)), disk(7, roles=("data_content",)), *others], unwatched) == 8
    assert room(others, unwatched) == 0


def test_a_lack_of_disk_space_is_reported_in_numbers() -> None:
    (said,) = DiskSpace.of([disk(TERABYTE // 2)], {"persistent": {FLOOD_STAGE: "60%"}}).problems(TERABYTE)
    assert said == (
        "1,000.0 GB of disk space are needed, but no data node can take more than 100.0 GB before Elasticsearch "
        "blocks writes (flood stage 60%): free disk space."
    )


async def test_a_real_cluster_passes_with_little_and_not_with_more_than_any_disk(bench: Bench) -> None:
    assert await preflight(bench.client, needed_bytes=1, force=False) == []
    with pytest.raises(RefusedError, match=r"1,152,921,504\.6 GB of disk space are needed, but"):
        await preflight(bench.client, needed_bytes=2**60, force=False)
    (overridden,) = await preflight(bench.client, needed_bytes=2**60, force=True)
    assert "are needed, but no data node" in overridden
