"""Network faults between the service and its nodes: slow, broken, silent, closed."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.accounting import resident_bytes
from tests.chaos.probes import ready_status, search_tasks
from tests.chaos.request_totals import GOOD
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import ScenarioRun, run_scenario
from tests.network.cuts import at_random
from tests.network.proxy import Proxy, proxied

_LONG_SECONDS = 30.0  # far beyond any deadline
_SLOW_SECONDS = 1.0
_SHARE = 0.02  # of answers that are cut, and of connections that are reset every tenth of a second
_STEP_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0  # with the first reset and the first cut, which chance and a busy machine may delay
_MEGABYTE = 1e6
_GROWTH = 1.1


@asynccontextmanager
async def _through_proxies(ground: ScenarioCluster) -> AsyncIterator[tuple[ScenarioRun, list[Proxy]]]:
    """Run a service that reaches each node through a proxy."""
    async with proxied(ground.nodes.urls) as proxies, run_scenario(ground, urls=[each.url for each in proxies]) as play:
        try:
            yield play, proxies
        finally:
            for proxy in proxies:
                await proxy.heal()


async def all_slow(ground: ScenarioCluster) -> ScenarioResult:
    """Delay all responses of all nodes beyond the deadline."""
    extent = ground.extent
    async with _through_proxies(ground) as (play, proxies):
        before = resident_bytes(play.serving.process.pid)
        for proxy in proxies:
            proxy.to_service.delay = _LONG_SECONDS
        await play.read(extent.during + 2 * extent.deadline)
        grown = resident_bytes(play.serving.process.pid) / before
        play.figures["memory of the service"] = f"{before / _MEGABYTE:.0f} MB, then {grown:.2f} times as much"
        play.timely(grown <= _GROWTH, f"the service holds {grown:.2f} times the memory it had")
        for proxy in proxies:
            await proxy.heal()
        await _no_tasks_left(play)
    play.punctual()
    return play.outcome(f"responses of all nodes delayed by {_LONG_SECONDS:g} s")


async def _no_tasks_left(play: ScenarioRun) -> None:
    """Two seconds later, no abandoned search is running, apart from those of current requests."""
    await asyncio.sleep(2)
    tasks = await search_tasks(play.ground.nodes.client, play.ground.stage.connection.prefix)
    old = [seconds for seconds in tasks if seconds > 2]
    play.figures["searches older than 2 s, afterwards"] = str(len(old))
    play.must(not old, f"{len(old)} searches were still worked on")


async def one_slow(ground: ScenarioCluster) -> ScenarioResult:
    """Delay the responses of one node by one to two seconds."""
    async with _through_proxies(ground) as (play, proxies):
        proxies[0].to_service.delay = proxies[0].to_service.jitter = _SLOW_SECONDS
        await play.read(ground.extent.during)
        play.figures["median, p99"] = f"{play.tally.quantile(0.5):.2f} s, {play.tally.quantile(0.99):.2f} s"
    play.unfailing("while one node was slow")
    play.punctual()
    return play.outcome("responses of one node delayed by 1 to 2 s")


async def resets(ground: ScenarioCluster) -> ScenarioResult:
    """Reset connections at random."""
    count = 0
    async with _through_proxies(ground) as (play, proxies):
        for step in range(int(_PATIENCE_SECONDS / _STEP_SECONDS)):
            if count and step >= ground.extent.during / _STEP_SECONDS:
                break
            count += sum(proxy.reset(_SHARE) for proxy in proxies)
            await play.read(_STEP_SECONDS)
        play.figures["connections reset"] = str(count)
    play.must(count > 0, "no connection was reset")
    play.punctual()
    return play.outcome("connections to all nodes reset at random")


async def cuts(ground: ScenarioCluster) -> ScenarioResult:
    """Truncate responses within and after the head, within and between chunks, and anywhere."""
    async with _through_proxies(ground) as (play, proxies):
        for number, proxy in enumerate(proxies):
            proxy.cutting = at_random(random.Random(number), _SHARE * 2)  # noqa: S311 - the same cuts in every run
        await play.read(ground.extent.during)
        for _ in range(int(_PATIENCE_SECONDS / _STEP_SECONDS)):
            if any(proxy.cuts for proxy in proxies):
                break
            await play.read(_STEP_SECONDS)
        for proxy in proxies:
            proxy.cutting = None
    count = sum(proxy.cuts for proxy in proxies)
    play.figures["responses truncated"] = str(count)
    play.must(count > 0, "no answer was cut")
    play.punctual()
    return play.outcome("responses of all nodes truncated at random")


async def silent(ground: ScenarioCluster) -> ScenarioResult:
    """Drop everything that is sent to one node."""
    async with _through_proxies(ground) as (play, proxies):
        proxies[0].freeze()
        began, ended = await play.read(ground.extent.during)
        seen = play.tally.between(began, ended)
        good = sum(one.kind == GOOD for one in seen)
        play.figures["meanwhile"] = f"{good} of {len(seen)} requests succeeded"
        play.must(good > 0, "nothing was answered while the network of one of three nodes was silent")
    play.punctual()
    return play.outcome(f"network of one node drops everything for {ground.extent.during:g} s")


async def refused(ground: ScenarioCluster) -> ScenarioResult:
    """Refuse all connections for ten seconds; the service recovers by itself and stays ready."""
    seconds = min(10.0, ground.extent.during)
    async with _through_proxies(ground) as (play, proxies):
        for proxy in proxies:
            proxy.refuse()
        statuses = []
        for _ in range(5):
            began, ended = await play.read(seconds / 5)
            statuses.append(await ready_status(play.serving.url))
        kinds = {one.kind for one in play.tally.between(began, ended)}
        for proxy in proxies:
            await proxy.heal()
        healed, _ = await play.read(ground.extent.during / 2)
        back = play.tally.regained(healed, 0.01, 1.0)
        play.figures["first responses"] = "never" if back is None else f"{back + 1:.1f} s after recovery, at most"
        play.figures["/readyz meanwhile"] = ", ".join(str(status) for status in sorted(set(statuses)))
        play.must(set(statuses) == {200}, f"/readyz answered {statuses}")
        play.must(kinds <= {"503"}, f"responses had {sorted(kinds)}, not only 503")
        play.must(back is not None, "the service did not come back")
    play.punctual()
    return play.outcome(f"all nodes refuse connections for {seconds:g} s")
