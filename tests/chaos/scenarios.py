"""All scenarios, in the order in which they run. Add new ones here."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from indexer import RunStage
from tests.chaos import faults, sharded_faults
from tests.chaos.client_disconnects import hang_ups
from tests.chaos.faults import Fault
from tests.chaos.overload import overload
from tests.chaos.restarts import killed_workers, rolled, taken_over
from tests.chaos.sharded_faults import ShardedFault
from tests.simulation.nodes import ClusterNodes, separate_cpus
from tests.simulation.results import ScenarioResult
from tests.simulation.scenario import ScenarioCluster, run_scenario

Scenario = Callable[[ScenarioCluster], Awaitable[ScenarioResult]]


def _walked(
    fault: Fault,
    text: str,
    *,
    is_proxied: bool = False,
    is_punctual: bool = True,
    is_late: bool = False,
    unfailing: str = "",
) -> Scenario:
    """Return the scenario of a fault during walks. The text of its row may have figures of the extent.

    Responses are `is_punctual`, or may take long after a kill; `is_late` gives a short run a distant deadline. No
    request may fail if `unfailing` says when.
    """

    async def play_it(ground: ScenarioCluster) -> ScenarioResult:
        extent = ground.extent
        deadline = faults.LATE_SECONDS if is_late and not extent.is_timed else extent.deadline
        async with run_scenario(ground, is_proxied=is_proxied, deadline_seconds=deadline) as play:
            await fault(play, ground.nodes)
        if unfailing:
            play.unfailing(unfailing)
        if is_punctual:
            play.punctual()
        during = extent.during
        return play.outcome(
            text.format(walkers=extent.walkers, during=during, longer=during * 1.5, ten=min(10.0, during))
        )

    return play_it


def _sharded(fault: ShardedFault, text: str) -> Scenario:
    return partial(sharded_faults.sharded, fault=fault, text=text)


async def _master(nodes: ClusterNodes, _alias: str) -> int:
    return await nodes.master()


async def _overload_apart(ground: ScenarioCluster) -> ScenarioResult:
    """Run the overload with a CPU reserved for Elasticsearch, so that refusals do not wait for it."""
    with separate_cpus(process.pid for process in ground.nodes.cluster.processes):
        outcome = await overload(ground.stage)
    return replace(outcome, fault=f"{outcome.fault}, Elasticsearch on a separate core")


_proxied = partial(_walked, is_proxied=True)
_kill = partial(_walked, is_punctual=False)
_broken = partial(_walked, is_late=True)
_NODE, _NODES = "SIGKILL of one of three nodes", "all nodes"

SCENARIOS: dict[str, Scenario] = {
    "kill": _kill(faults.kill_holder, _NODE + ", the one with the listings, while {walkers} consumers read"),
    "kill-master": _kill(faults.kill_master, _NODE + ", the elected master, while {walkers} consumers read"),
    "freeze": _walked(faults.freeze, "SIGSTOP of one of three nodes for {longer:g} s, then SIGCONT"),
    "shards-build": _sharded(
        sharded_faults.killed_in(RunStage.READING, ClusterNodes.holder), f"{_NODE} during a rebuild"
    ),
    "shards-swap": _sharded(
        sharded_faults.killed_in(RunStage.SWAPPING, _master), "SIGKILL of the elected master during a swap"
    ),
    "shards-walk": _sharded(sharded_faults.killed_in_walk, "SIGKILL of each of three nodes in turn"),
    "shards-compaction": _sharded(sharded_faults.killed_in_compaction, f"{_NODE} during a compaction, twice"),
    "shards-moved": _sharded(sharded_faults.moved, "a node is added and removed"),
    "shards-restarts": _sharded(sharded_faults.restarted_in_turn, "rolling restart of three nodes"),
    "all-slow": _proxied(faults.slow_all, f"responses of {_NODES} delayed by {faults.LONG_SECONDS:g} s"),
    "one-slow": _proxied(
        faults.slow_one, "responses of one node delayed by 1 to 2 s", unfailing="while one node was slow"
    ),
    "resets": _proxied(faults.reset_some, f"connections to {_NODES} reset at random"),
    "cuts": _proxied(faults.cut_some, f"responses of {_NODES} truncated at random"),
    "silent": _proxied(faults.silence_one, "network of one node drops everything for {during:g} s"),
    "refused": _proxied(faults.refuse_all, _NODES + " refuse connections for {ten:g} s"),
    "disk": _walked(faults.fill_disks, f"the disks of {_NODES} at the flood stage"),
    "alias-gone": _broken(faults.unusable(faults.alias_gone), "the alias of the listings is deleted"),
    "alias-swapped": faults.swapped,
    "closed": _broken(faults.unusable(faults.closed), "the index of the listings is closed"),
    "stale": _broken(faults.unusable(faults.outdated), "the alias points to an outdated index"),
    "shard": _broken(faults.unusable(faults.unassigned), "one of two shards of the listings is unassigned"),
    "overload": lambda ground: overload(ground.stage),
    "overload-apart": _overload_apart,
    "hang-ups": lambda ground: hang_ups(ground.stage.connection.url),
    "restarts": lambda ground: rolled(ground.stage),
    "take-over": lambda ground: taken_over(ground.stage),
    "workers-killed": lambda ground: killed_workers(ground.stage),
}
