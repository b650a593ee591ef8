"""All scenarios, in the order in which they run. Add new ones here."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.chaos import index_faults, network_faults, sharded_faults
from tests.chaos.alias_swaps import swapped
from tests.chaos.client_disconnects import hang_ups
from tests.chaos.cpu_affinity import separate_cpus
from tests.chaos.disk_faults import disks_full
from tests.chaos.node_faults import frozen, killed, killed_master
from tests.chaos.overload import overload
from tests.chaos.restarts import killed_workers, rolled, taken_over
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult

Scenario = Callable[[ScenarioCluster], Awaitable[ScenarioResult]]


async def _overload_apart(ground: ScenarioCluster) -> ScenarioResult:
    """Run the overload with a CPU reserved for Elasticsearch, so that refusals do not wait for it."""
    with separate_cpus(process.pid for process in ground.nodes.cluster.processes):
        outcome = await overload(ground.stage)
    return replace(outcome, fault=f"{outcome.fault}, Elasticsearch on a separate core")


SCENARIOS: dict[str, Scenario] = {
    "kill": killed,
    "kill-master": killed_master,
    "freeze": frozen,
    "shards-build": sharded_faults.killed_in_build,
    "shards-swap": sharded_faults.killed_in_swap,
    "shards-walk": sharded_faults.killed_in_walk,
    "shards-compaction": sharded_faults.killed_in_compaction,
    "shards-moved": sharded_faults.moved,
    "shards-restarts": sharded_faults.restarted_in_turn,
    "all-slow": network_faults.all_slow,
    "one-slow": network_faults.one_slow,
    "resets": network_faults.resets,
    "cuts": network_faults.cuts,
    "silent": network_faults.silent,
    "refused": network_faults.refused,
    "disk": disks_full,
    "alias-gone": index_faults.alias_gone,
    "alias-swapped": swapped,
    "closed": index_faults.closed,
    "stale": index_faults.stale,
    "shard": index_faults.shard_unassigned,
    "overload": lambda ground: overload(ground.stage),
    "overload-apart": _overload_apart,
    "hang-ups": lambda ground: hang_ups(ground.stage.connection.url),
    "restarts": lambda ground: rolled(ground.stage),
    "take-over": lambda ground: taken_over(ground.stage),
    "workers-killed": lambda ground: killed_workers(ground.stage),
}
