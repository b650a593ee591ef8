"""Full disks: Elasticsearch refuses writes, and reads continue."""

import asyncio
import time

from elasticsearch import ApiError

from tests.chaos.index_faults import live
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import run_scenario

_WATERMARK = "cluster.routing.allocation.disk.watermark."
_STAGES = ("low", "high", "flood_stage")
_MORE_THAN_ANY_DISK = "1000000gb"
# Elasticsearch looks at its disks every ten seconds.
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.2


async def disks_full(ground: ScenarioCluster) -> ScenarioResult:
    """Set the flood stage for all disks, then remove it."""
    settings = ground.nodes.client.cluster.put_settings
    async with run_scenario(ground) as play:
        try:
            await settings(persistent={_WATERMARK + stage: _MORE_THAN_ANY_DISK for stage in _STAGES})
            play.must(await _blocked(ground, until=True), "Elasticsearch did not block writing: nothing was tried")
            await play.read(ground.extent.during / 3)
        finally:
            await settings(persistent={_WATERMARK + stage: None for stage in _STAGES})
        play.must(await _blocked(ground, until=False), "Elasticsearch did not lift its block")
        play.unfailing("while disks were full")
    play.punctual()
    return play.outcome("the disks of all nodes at the flood stage")


async def _blocked(ground: ScenarioCluster, *, until: bool) -> bool:
    """Wait until the live index refuses writes, or accepts them again; return False after the timeout."""
    index, ends = await live(ground), time.monotonic() + _PATIENCE_SECONDS
    while await _refuses(ground, index) is not until:
        if time.monotonic() > ends:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _refuses(ground: ScenarioCluster, index: str) -> bool:
    """Whether the deletion of a missing document is refused as a write."""
    try:
        await ground.nodes.client.options(ignore_status=404).delete(index=index, id="no-such-listing")
    except ApiError as error:
        if "cluster_block_exception" not in str(error):
            raise
        return True
    return False
