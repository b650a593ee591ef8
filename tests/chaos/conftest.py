"""One cluster of three, shared by the tests of a module and started by the first."""

from collections.abc import AsyncIterator

import pytest

from tests.simulation.scenario import SHORT, ScenarioCluster, scenario_cluster


@pytest.fixture(scope="module")
async def shared_ground() -> AsyncIterator[ScenarioCluster]:
    """Three nodes with a little data."""
    async with scenario_cluster(SHORT) as ground:
        yield ground


@pytest.fixture
async def ground(shared_ground: ScenarioCluster) -> ScenarioCluster:
    """The same cluster, recovered from earlier tests."""
    await shared_ground.nodes.complete()
    return shared_ground
