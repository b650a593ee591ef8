"""Short runs of the scenarios: every fault happens and no page is wrong. `make chaos` checks the times."""

import asyncio

import pytest

from tests.chaos.scenarios import SCENARIOS
from tests.simulation.results import ScenarioResult
from tests.simulation.scenario import ScenarioCluster


def _sound(outcome: ScenarioResult) -> None:
    assert outcome.requests > 50, outcome
    assert (outcome.wrong, outcome.violations) == (0, []), outcome


async def test_full_disks_truncated_responses_and_resets_cause_no_wrong_page(ground: ScenarioCluster) -> None:
    """Full disks are detected after ten seconds; the other scenarios run meanwhile, each with its own service."""
    async with asyncio.TaskGroup() as group:  # a failure cancels the others, which repair what they broke
        played = [group.create_task(_played(name, ground)) for name in ("disk", "cuts", "resets")]
    for scenario in played:
        _sound(scenario.result())


async def _played(name: str, ground: ScenarioCluster) -> ScenarioResult:
    return await SCENARIOS[name](ground)


@pytest.mark.parametrize("name", ["alias-gone", "freeze"])
async def test_no_page_is_wrong(ground: ScenarioCluster, name: str) -> None:
    _sound(await SCENARIOS[name](ground))
