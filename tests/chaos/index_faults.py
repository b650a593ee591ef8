"""Faults of aliases and indices: deleted, swapped, closed, outdated, with an unassigned shard."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from elasticsearch.helpers import async_bulk, async_scan

from mappings import LISTING
from mappings.indices import index_body
from tests.chaos.request_totals import GOOD, ObservedRequest
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import ScenarioRun, run_scenario

# Shared searches are up to a second old, and running requests take some time.
_SETTLED_SECONDS = 1.5
_LEAST_SECONDS = 4.0  # who is refused comes back after about two
_PATIENCE_SECONDS = 60.0  # with requests that must come, on a busy machine
_LOOK_SECONDS = 0.1
_LATE_SECONDS = 30.0  # the deadline where times are not checked


async def live(ground: ScenarioCluster) -> str:
    """Return the index behind the alias of the listings."""
    [index] = await ground.nodes.client.indices.get_alias(name=ground.stage.connection.alias(LISTING))
    return str(index)


async def point(ground: ScenarioCluster, index: str, instead_of: str) -> None:
    """Move the alias of the listings atomically."""
    alias = ground.stage.connection.alias(LISTING)
    remove = {"index": instead_of, "alias": alias, "must_exist": True}
    await ground.nodes.client.indices.update_aliases(
        actions=[{"add": {"index": index, "alias": alias}}, {"remove": remove}]
    )


async def _unusable(ground: ScenarioCluster, fault: str, spoilt: AbstractAsyncContextManager[None]) -> ScenarioResult:
    """Inject a fault that makes listings unreadable: they must be refused, and nothing else."""
    extent = ground.extent
    deadline = extent.deadline if extent.is_timed else _LATE_SECONDS
    async with run_scenario(ground, deadline_seconds=deadline) as play:
        async with spoilt:
            await play.read(_SETTLED_SECONDS)
            began, _ = await play.read(max(_LEAST_SECONDS, extent.during / 3))
            await _seen(play, began, "/listings")
            await _seen(play, began, "/sold_listings")
            ended = time.monotonic()
        recovered = time.monotonic()
        await play.read(_LEAST_SECONDS)
        _judge_refusals(play, began, ended)
        back = await _seen(play, recovered, "/listings", GOOD)
        play.figures["first listings again"] = f"{back[0].at - recovered:.1f} s after the repair" if back else "never"
        play.must(bool(back), "the listings did not come back")
    play.punctual()
    return play.outcome(fault)


async def _seen(play: ScenarioRun, since: float, path: str, *kinds: str) -> list[ObservedRequest]:
    """Return the requests of a path since a moment, of all kinds or of these; wait for the first."""
    while True:
        now = time.monotonic()
        found = [one for one in play.tally.between(since, now, path) if not kinds or one.kind in kinds]
        if found or now > since + _PATIENCE_SECONDS:
            return found
        await play.read(_LOOK_SECONDS)


def _judge_refusals(play: ScenarioRun, began: float, ended: float) -> None:
    kinds = {one.kind for one in play.tally.between(began, ended, "/listings")}
    others = play.tally.between(began, ended, "/sold_listings")
    failed = [one for one in others if one.kind != GOOD]
    play.figures["sold listings meanwhile"] = f"{len(others) - len(failed)} of {len(others)} requests succeeded"
    play.must(kinds == {"503"}, f"listings were answered with {sorted(kinds)}, not with 503 alone")
    play.must(bool(others), "no sold listings were requested meanwhile")
    play.must(not failed, f"{len(failed)} requests for sold listings failed")


async def alias_gone(ground: ScenarioCluster) -> ScenarioResult:
    """Delete the alias of the listings, and restore it."""

    @asynccontextmanager
    async def gone() -> AsyncIterator[None]:
        indices, index, alias = ground.nodes.client.indices, await live(ground), ground.stage.connection.alias(LISTING)
        await indices.delete_alias(index=index, name=alias)
        try:
            yield
        finally:
            await indices.put_alias(index=index, name=alias)

    return await _unusable(ground, "the alias of the listings is deleted", gone())


async def closed(ground: ScenarioCluster) -> ScenarioResult:
    """Close the index of the listings, and reopen it."""

    @asynccontextmanager
    async def shut() -> AsyncIterator[None]:
        indices, index = ground.nodes.client.indices, await live(ground)
        await indices.close(index=index)
        try:
            yield
        finally:
            await indices.open(index=index)
            await ground.nodes.whole()

    return await _unusable(ground, "the index of the listings is closed", shut())


async def stale(ground: ScenarioCluster) -> ScenarioResult:
    """Point the alias to an index without the field that sorts and bounds a company's feed."""
    body: dict[str, Any] = index_body(LISTING)
    body["mappings"] |= {"dynamic": False, "_meta": {"resource": LISTING.alias, "fingerprint": "0" * 16}}
    del body["mappings"]["properties"]["feed_key"]
    body["settings"] = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    return await _unusable(ground, "the alias points to an outdated index", _another(ground, body))


async def shard_unassigned(ground: ScenarioCluster) -> ScenarioResult:
    """Point the alias to an index with an unassigned shard: the other shard alone must not look complete."""
    body: dict[str, Any] = index_body(LISTING)
    node = ground.nodes.cluster.processes[0].name
    body["settings"] |= {"index.number_of_shards": 2, "index.number_of_replicas": 0}
    # One node may have one shard, and no other node any.
    only = "index.routing.allocation."
    body["settings"] |= {f"{only}require._name": node, f"{only}total_shards_per_node": 1}
    return await _unusable(ground, "one of two shards of the listings is unassigned", _another(ground, body))


@asynccontextmanager
async def _another(ground: ScenarioCluster, body: dict[str, Any]) -> AsyncIterator[None]:
    """Point the alias to a different index with the same documents."""
    index, name = await live(ground), f"{ground.stage.connection.alias(LISTING)}-v9001"
    client = ground.nodes.client
    await client.indices.delete(index=name, ignore_unavailable=True)
    await client.indices.create(index=name, **body, wait_for_active_shards=0)
    try:
        await client.cluster.health(index=name, wait_for_active_shards=1, timeout="30s")
        found = async_scan(client, index=index)
        copies = [{"_index": name, "_id": hit["_id"], "_source": hit["_source"]} async for hit in found]
        # A shard that is on no node is not waited for.
        taken, _ = await async_bulk(client, copies, raise_on_error=False, timeout="100ms", refresh=True)
        if not taken:
            raise RuntimeError("The other index took no document.")
        await point(ground, name, index)
        yield
        await point(ground, index, name)
    finally:
        await client.indices.delete(index=name)
