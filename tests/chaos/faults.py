"""Faults of nodes, networks, disks, aliases and indices, each played while readers walk their feeds.

A fault is an async function of the scenario in progress: it breaks, lets the readers go on, mends, and says what must
hold. `tests.chaos.scenarios` names them all.
"""

import asyncio
import copy
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from elasticsearch import ApiError
from elasticsearch.helpers import async_bulk, async_scan

from bench.accounting import resident_bytes
from cluster.connection import connect
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from mappings import LISTING
from mappings.indices import index_body
from tests.network.cuts import at_random
from tests.simulation.history import write_lines
from tests.simulation.nodes import ClusterNodes, search_tasks
from tests.simulation.oracle import ExpectedFeeds, PageOracle, mixed_walks
from tests.simulation.requests import GOOD, percentile
from tests.simulation.results import ScenarioResult
from tests.simulation.scenario import Ground, ScenarioCluster, ScenarioRun, run_scenario

Fault = Callable[[ScenarioRun, ClusterNodes], Awaitable[None]]

_FAILED_SHARE = 0.005  # of the requests of the 30 seconds that follow the loss of a node
_BACK_SECONDS = 5.0  # after the cluster's own recovery
_BACK_SHARE = 0.9  # of the rate before
LONG_SECONDS = 30.0  # far beyond any deadline
_SLOW_SECONDS = 1.0
_SHARE = 0.02  # of answers that are cut, and of connections that are reset every tenth of a second
_STEP_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0  # with what chance, a busy machine and Elasticsearch's looks at its disks may delay
_GROWTH = 1.1
_WATERMARK = "cluster.routing.allocation.disk.watermark."
_STAGES = ("low", "high", "flood_stage")
_MORE_THAN_ANY_DISK = "1000000gb"
_LOOK_SECONDS = 0.2
# Shared searches are up to a second old, and running requests take some time.
_SETTLED_SECONDS = 1.5
_LEAST_SECONDS = 4.0  # who is refused comes back after about two
LATE_SECONDS = 30.0  # the deadline where times are not checked
_MISSING = 10  # each tenth listing of the first generation is not in the second


# Nodes.


async def kill_holder(play: ScenarioRun, nodes: ClusterNodes) -> None:
    await _kill(play, nodes, await nodes.holder(play.ground.stage.connection.alias(LISTING)))


async def kill_master(play: ScenarioRun, nodes: ClusterNodes) -> None:
    await _kill(play, nodes, await nodes.master())


async def _kill(play: ScenarioRun, nodes: ClusterNodes, number: int) -> None:
    extent, moment = play.ground.extent, time.monotonic()
    nodes.kill(number)
    recovered = await nodes.recovered(len(nodes.urls) - 1)
    await play.read(max(extent.during - recovered, extent.after))
    _regained(play, moment, moment + recovered)
    if extent.is_timed:  # otherwise the next scenario restarts the node
        await nodes.complete()


def _regained(play: ScenarioRun, moment: float, recovered: float) -> None:
    """Check the share of failures, and how soon the rate recovered."""
    tally, during = play.tally, play.ground.extent.during
    following = tally.ended(moment, moment + during)
    failed = sum(request.kind != GOOD for request in following)
    play.figures["failed requests afterwards"] = f"{failed} of {len(following)} in {during:g} s"
    play.timely(failed <= _FAILED_SHARE * len(following), f"{failed} of {len(following)} requests failed")
    before = tally.median_rate(moment - play.ground.extent.before, moment)
    back = tally.regained(recovered, _BACK_SHARE * before)
    play.figures["recovery of the cluster"] = f"{recovered - moment:.1f} s"
    play.figures["back to 90 % of the rate"] = (
        "never" if back is None else f"{back:.1f} s later ({before:g} per second before)"
    )
    play.timely(back is not None and back <= _BACK_SECONDS, f"the rate was back {back} s after the cluster's recovery")


async def freeze(play: ScenarioRun, nodes: ClusterNodes) -> None:
    """Suspend the node with the listings, and resume it."""
    number = await nodes.holder(play.ground.stage.connection.alias(LISTING))
    nodes.freeze(number)
    try:
        began, ended = await play.read(play.ground.extent.during * 1.5)
    finally:
        nodes.thaw(number)
    await nodes.whole()
    sentence = "nothing was answered while one of three nodes was halted"
    play.some_good(began, ended, "while it was stopped", sentence)


# The network between the service and its nodes.


async def slow_all(play: ScenarioRun, nodes: ClusterNodes) -> None:
    """Delay all responses of all nodes beyond the deadline."""
    extent, before = play.ground.extent, resident_bytes(play.serving.pid)
    for proxy in play.proxies:
        proxy.to_service.delay = LONG_SECONDS
    await play.read(extent.during + 2 * extent.deadline)
    grown = resident_bytes(play.serving.pid) / before
    play.figures["memory of the service"] = f"{before / 1e6:.0f} MB, then {grown:.2f} times as much"
    play.timely(grown <= _GROWTH, f"the service holds {grown:.2f} times the memory it had")
    for proxy in play.proxies:
        await proxy.heal()
    # Two seconds later, no abandoned search is running, apart from those of current requests.
    await asyncio.sleep(2)
    old = [seconds for seconds in await search_tasks(nodes.client, play.ground.stage.connection.prefix) if seconds > 2]
    play.figures["searches older than 2 s, afterwards"] = str(len(old))
    play.must(not old, f"{len(old)} searches were still worked on")


async def slow_one(play: ScenarioRun, _nodes: ClusterNodes) -> None:
    play.proxies[0].to_service.delay = play.proxies[0].to_service.jitter = _SLOW_SECONDS
    await play.read(play.ground.extent.during)
    median, high = (percentile([request.seconds for request in play.tally.seen], share) for share in (50, 99))
    play.figures["median, p99"] = f"{median:.2f} s, {high:.2f} s"


async def reset_some(play: ScenarioRun, _nodes: ClusterNodes) -> None:
    count = 0
    for step in range(int(_PATIENCE_SECONDS / _STEP_SECONDS)):
        if count and step >= play.ground.extent.during / _STEP_SECONDS:
            break
        count += sum(proxy.reset(_SHARE) for proxy in play.proxies)
        await play.read(_STEP_SECONDS)
    play.figures["connections reset"] = str(count)
    play.must(count > 0, "no connection was reset")


async def cut_some(play: ScenarioRun, _nodes: ClusterNodes) -> None:
    """Truncate responses within and after the head, within and between chunks, and anywhere."""
    for number, proxy in enumerate(play.proxies):
        proxy.cutting = at_random(random.Random(number), _SHARE * 2)  # noqa: S311 - the same cuts in every run
    await play.read(play.ground.extent.during)
    for _ in range(int(_PATIENCE_SECONDS / _STEP_SECONDS)):
        if any(proxy.cuts for proxy in play.proxies):
            break
        await play.read(_STEP_SECONDS)
    for proxy in play.proxies:
        proxy.cutting = None
    count = sum(proxy.cuts for proxy in play.proxies)
    play.figures["responses truncated"] = str(count)
    play.must(count > 0, "no answer was cut")


async def silence_one(play: ScenarioRun, _nodes: ClusterNodes) -> None:
    play.proxies[0].freeze()
    began, ended = await play.read(play.ground.extent.during)
    sentence = "nothing was answered while the network of one of three nodes was silent"
    play.some_good(began, ended, "meanwhile", sentence)


async def refuse_all(play: ScenarioRun, _nodes: ClusterNodes) -> None:
    """Refuse all connections for ten seconds; the service recovers by itself and stays ready."""
    for proxy in play.proxies:
        proxy.refuse()
    statuses = []
    for _ in range(5):
        began, ended = await play.read(min(10.0, play.ground.extent.during) / 5)
        async with aiohttp.ClientSession() as session, session.get(f"{play.serving.url}/readyz") as response:
            statuses.append(response.status)
    kinds = {request.kind for request in play.tally.between(began, ended)}
    for proxy in play.proxies:
        await proxy.heal()
    healed, _ = await play.read(max(_LEAST_SECONDS, play.ground.extent.during / 2))
    back = play.tally.regained(healed, 0.01, 1.0)
    play.figures["first responses"] = "never" if back is None else f"{back + 1:.1f} s after recovery, at most"
    play.figures["/readyz meanwhile"] = ", ".join(str(status) for status in sorted(set(statuses)))
    play.must(set(statuses) == {200}, f"/readyz answered {statuses}")
    play.must(kinds <= {"503"}, f"responses had {sorted(kinds)}, not only 503")
    play.must(back is not None, "the service did not come back")


# Full disks: Elasticsearch refuses writes, and reads continue.


async def fill_disks(play: ScenarioRun, nodes: ClusterNodes) -> None:
    """Set the flood stage for all disks, then remove it."""
    settings, index = nodes.client.cluster.put_settings, await _live(play.ground, nodes)
    try:
        await settings(persistent={_WATERMARK + stage: _MORE_THAN_ANY_DISK for stage in _STAGES})
        is_blocked = await _is_blocked(nodes, index, until=True)
        play.must(is_blocked, "Elasticsearch did not block writing: nothing was tried")
        await play.read(play.ground.extent.during / 3)
    finally:
        await settings(persistent={_WATERMARK + stage: None for stage in _STAGES})
    is_free = await _is_blocked(nodes, index, until=False)
    play.must(is_free, "Elasticsearch did not lift its block")
    play.unfailing("while disks were full")


async def _is_blocked(nodes: ClusterNodes, index: str, *, until: bool) -> bool:
    """Wait until an index refuses writes, or accepts them again; return False after the timeout."""
    ends = time.monotonic() + _PATIENCE_SECONDS
    while await _refuses(nodes, index) is not until:
        if time.monotonic() > ends:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _refuses(nodes: ClusterNodes, index: str) -> bool:
    """Whether the deletion of a missing document is refused as a write."""
    try:
        await nodes.client.options(ignore_status=404).delete(index=index, id="no-such-listing")
    except ApiError as error:
        if "cluster_block_exception" not in str(error):
            raise
        return True
    return False


# Aliases and indices: what is broken must be refused, and nothing else.


def unusable(spoilt: Callable[[Ground, ClusterNodes], AbstractAsyncContextManager[None]]) -> Fault:
    """Return a fault that makes listings unreadable: they must be refused, and nothing else."""

    async def fault(play: ScenarioRun, nodes: ClusterNodes) -> None:
        async with spoilt(play.ground, nodes):
            await play.read(_SETTLED_SECONDS)
            began, _ = await play.read(max(_LEAST_SECONDS, play.ground.extent.during / 3))
            await play.seen(began, "/listings")
            await play.seen(began, "/sold_listings")
            ended = time.monotonic()
        recovered = time.monotonic()
        await play.read(_LEAST_SECONDS)
        kinds = {request.kind for request in play.tally.between(began, ended, "/listings")}
        others = play.tally.between(began, ended, "/sold_listings")
        failed = [request for request in others if request.kind != GOOD]
        play.figures["sold listings meanwhile"] = f"{len(others) - len(failed)} of {len(others)} requests succeeded"
        play.must(kinds == {"503"}, f"listings were answered with {sorted(kinds)}, not with 503 alone")
        play.must(bool(others), "no sold listings were requested meanwhile")
        play.must(not failed, f"{len(failed)} requests for sold listings failed")
        back = await play.seen(recovered, "/listings", GOOD)
        play.figures["first listings again"] = f"{back[0].at - recovered:.1f} s after the repair" if back else "never"
        play.must(bool(back), "the listings did not come back")

    return fault


async def _live(ground: Ground, nodes: ClusterNodes) -> str:
    [index] = await nodes.client.indices.get_alias(name=ground.stage.connection.alias(LISTING))
    return str(index)


async def _point(ground: Ground, nodes: ClusterNodes, index: str, instead_of: str) -> None:
    alias = ground.stage.connection.alias(LISTING)
    remove = {"index": instead_of, "alias": alias, "must_exist": True}
    await nodes.client.indices.update_aliases(actions=[{"add": {"index": index, "alias": alias}}, {"remove": remove}])


@asynccontextmanager
async def alias_gone(ground: Ground, nodes: ClusterNodes) -> AsyncIterator[None]:
    """Delete the alias of the listings, and restore it."""
    index, alias = await _live(ground, nodes), ground.stage.connection.alias(LISTING)
    await nodes.client.indices.delete_alias(index=index, name=alias)
    try:
        yield
    finally:
        await nodes.client.indices.put_alias(index=index, name=alias)


@asynccontextmanager
async def closed(ground: Ground, nodes: ClusterNodes) -> AsyncIterator[None]:
    index = await _live(ground, nodes)
    await nodes.client.indices.close(index=index)
    try:
        yield
    finally:
        await nodes.client.indices.open(index=index)
        await nodes.whole()


def outdated(ground: Ground, nodes: ClusterNodes) -> AbstractAsyncContextManager[None]:
    """Point the alias to an index without the field that sorts and bounds a company's feed."""
    body: dict[str, Any] = index_body(LISTING)
    body["mappings"] |= {"dynamic": False, "_meta": {"resource": LISTING.alias, "fingerprint": "0" * 16}}
    del body["mappings"]["properties"]["feed_key"]
    body["settings"] = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    return _another(ground, nodes, body)


def unassigned(ground: Ground, nodes: ClusterNodes) -> AbstractAsyncContextManager[None]:
    """Point the alias to an index with an unassigned shard: the other shard alone must not look complete."""
    body: dict[str, Any] = index_body(LISTING)
    body["settings"] |= {"index.number_of_shards": 2, "index.number_of_replicas": 0}
    # One node may have one shard, and no other node any.
    only = "index.routing.allocation."
    name = nodes.cluster.processes[0].name
    body["settings"] |= {f"{only}require._name": name, f"{only}total_shards_per_node": 1}
    return _another(ground, nodes, body)


@asynccontextmanager
async def _another(ground: Ground, nodes: ClusterNodes, body: dict[str, Any]) -> AsyncIterator[None]:
    """Point the alias to a different index with the same documents."""
    client, index, name = nodes.client, await _live(ground, nodes), f"{ground.stage.connection.alias(LISTING)}-v9001"
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
        await _point(ground, nodes, name, index)
        yield
        await _point(ground, nodes, index, name)
    finally:
        await client.indices.delete(index=name)


async def swapped(ground: ScenarioCluster) -> ScenarioResult:
    """Swap between two generations repeatedly: every request succeeds, every page is from exactly one of them."""
    extent, nodes, first = ground.extent, ground.nodes, await _live(ground, ground.nodes)
    # In the other generation every listing has a different title, and some are missing.
    listings = [copy.deepcopy(one) for number, one in enumerate(ground.truth.source["listings"]) if number % _MISSING]
    for envelope in listings:
        envelope["record"]["PublicTitle"] = "of the second generation"
    other = ExpectedFeeds({**ground.truth.source, "listings": listings})
    judge = PageOracle([ground.truth, other])
    # The clock of a record that differs is the indexer's, so the form that shows clocks has no truth here.
    chosen = [walk for walk in mixed_walks(ground.truth, extent.walkers) if not walk.brief]
    async with _generation(ground, other, first) as second, run_scenario(ground, judge=judge, chosen=chosen) as play:
        for number in range(extent.swaps):
            old, new = (second, first) if number % 2 else (first, second)
            await _point(ground, nodes, new, old)
            await play.read(extent.during / extent.swaps)
        if extent.swaps % 2:
            await _point(ground, nodes, first, second)
        play.unfailing("while the alias was swapped")
    play.punctual()
    return play.outcome(f"the alias of the listings is swapped {extent.swaps} times")


@asynccontextmanager
async def _generation(ground: ScenarioCluster, truth: ExpectedFeeds, first: str) -> AsyncIterator[str]:
    """Build a second generation as the indexer does; the alias points to the first before and after."""
    connection = ground.stage.connection
    with tempfile.TemporaryDirectory() as name:
        write_lines(Path(name), {resource: truth.source[resource] for resource in ("companies", "listings")})
        async with connect(connection, connections=4, timeout=60) as client:
            context = IndexerContext(client, connection, IndexerSettings(dead_letter_folder=name))
            with open_source(name) as source:
                summary = await reindex(context, source, RebuildRequest([LISTING], force=True))
    if summary.exit_code:
        raise RuntimeError("The second generation was not loaded.")
    second = await _live(ground, ground.nodes)
    await _point(ground, ground.nodes, first, second)
    await ground.nodes.whole()
    try:
        yield second
    finally:
        await ground.nodes.client.indices.delete(index=second)
