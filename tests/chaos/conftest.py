"""One cluster of three, shared by the tests of a module and started by the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.scenario_cluster import SHORT, scenario_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.scenario_cluster import ScenarioCluster


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
