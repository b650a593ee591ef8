"""Runs of the game of disasters: `make disasters` runs it in full."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.disasters.disaster_machine import DisasterMachine
from tests.disasters.disaster_world import DisasterWorld, opened_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of indexer and service."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def world(
    cluster: EmbeddedCluster, backups: Path, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DisasterWorld]:
    """What all runs share."""
    making = opened_world(cluster.url, tmp_path_factory.mktemp("disasters"), backups)
    yield runner.run(making.__aenter__())
    runner.run(making.__aexit__(None, None, None))


def test_no_consumer_is_told_a_lie(
    world: DisasterWorld, runner: asyncio.Runner, amount: Callable[[int, int], int]
) -> None:
    DisasterMachine.world, DisasterMachine.runner, DisasterMachine.tally = world, runner, Counter()
    try:
        run_state_machine_as_test(
            DisasterMachine,
            settings=settings(
                max_examples=int(os.environ.get("RUNS", amount(4, 500))),
                stateful_step_count=amount(25, 50),
                derandomize=amount(1, 0) == 1,
                database=None,
                print_blob=True,
                phases=[Phase.explicit, Phase.generate] if os.environ.get("RUNS") else list(Phase),
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for name, count in sorted(DisasterMachine.tally.items()):
            print(f"{count:7,} {name}")
