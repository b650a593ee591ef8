"""Killed and suspended nodes."""

import time

from mappings import LISTING
from tests.chaos.request_totals import GOOD
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.scenario_run import ScenarioRun, run_scenario

_FAILED_SHARE = 0.005  # of the requests of the 30 seconds that follow
_BACK_SECONDS = 5.0  # after the cluster's own recovery
_BACK_SHARE = 0.9  # of the rate before


async def killed(ground: ScenarioCluster) -> ScenarioResult:
    """Kill the node with the listings."""
    number = await ground.nodes.holder(ground.stage.connection.alias(LISTING))
    return await _killed(ground, number, "the one with the listings")


async def killed_master(ground: ScenarioCluster) -> ScenarioResult:
    """Kill the elected master."""
    return await _killed(ground, await ground.nodes.master(), "the elected master")


async def _killed(ground: ScenarioCluster, number: int, which: str) -> ScenarioResult:
    nodes, extent = ground.nodes, ground.extent
    async with run_scenario(ground) as play:
        moment = time.monotonic()
        nodes.kill(number)
        recovered = await nodes.recovered(len(nodes.urls) - 1)
        await play.read(max(extent.during - recovered, extent.after))
        _regained(play, moment, moment + recovered)
        if extent.is_timed:  # otherwise the next scenario restarts the node
            await nodes.complete()
    return play.outcome(f"SIGKILL of one of three nodes, {which}, during {extent.walkers} walks")


def _regained(play: ScenarioRun, moment: float, recovered: float) -> None:
    """Check the share of failures, and how soon the rate recovered."""
    tally, during = play.tally, play.ground.extent.during
    following = tally.ended(moment, moment + during)
    failed = sum(one.kind != GOOD for one in following)
    play.figures["failed requests afterwards"] = f"{failed} of {len(following)} in {during:g} s"
    play.timely(failed <= _FAILED_SHARE * len(following), f"{failed} of {len(following)} requests failed")
    before = tally.median_rate(moment - play.ground.extent.before, moment)
    back = tally.regained(recovered, _BACK_SHARE * before)
    play.figures["recovery of the cluster"] = f"{recovered - moment:.1f} s"
    play.figures["back to 90 % of the rate"] = (
        "never" if back is None else f"{back:.1f} s later ({before:g} per second before)"
    )
    play.timely(back is not None and back <= _BACK_SECONDS, f"the rate was back {back} s after the cluster's recovery")


async def frozen(ground: ScenarioCluster) -> ScenarioResult:
    """Suspend the node with the listings, and resume it."""
    nodes, extent = ground.nodes, ground.extent
    number = await nodes.holder(ground.stage.connection.alias(LISTING))
    async with run_scenario(ground) as play:
        nodes.freeze(number)
        try:
            began, ended = await play.read(extent.during * 1.5)
        finally:
            nodes.thaw(number)
        await nodes.whole()
        while_frozen = play.tally.between(began, ended)
        good = sum(one.kind == GOOD for one in while_frozen)
        play.figures["while it was stopped"] = f"{good} of {len(while_frozen)} requests succeeded"
        play.must(good > 0, "nothing was answered while one of three nodes was halted")
    play.punctual()
    return play.outcome(f"SIGSTOP of one of three nodes for {extent.during * 1.5:g} s, then SIGCONT")
