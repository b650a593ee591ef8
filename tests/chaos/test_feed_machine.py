"""Runs of the state machine: `python -m pytest --soak tests/chaos/test_feed_machine.py` runs them in full."""

import asyncio
import secrets
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from cluster.connection import ConnectionSettings
from tests.chaos.feed_machine import FeedMachine
from tests.chaos.machine_environment import MachineEnvironment, opened


@pytest.fixture(scope="module", params=[1, 3, 7])
def shards(request: pytest.FixtureRequest) -> int:
    """How many shards the indices have. With one alone, they are not routed."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def environment(
    engine_url: str, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory, shards: int
) -> Iterator[MachineEnvironment]:
    connection = ConnectionSettings(url=(engine_url,), prefix=f"machine{secrets.token_hex(4)}-")
    making = opened(connection, tmp_path_factory.mktemp("machine"), shards)
    yield runner.run(making.__aenter__())
    runner.run(making.__aexit__(None, None, None))


def test_walks_and_polls_return_valid_states(
    environment: MachineEnvironment, runner: asyncio.Runner, amount: Callable[[int, int], int]
) -> None:
    FeedMachine.environment, FeedMachine.runner = environment, runner
    run_state_machine_as_test(
        FeedMachine,
        settings=settings(
            max_examples=amount(5, 500),
            stateful_step_count=amount(30, 50),
            derandomize=amount(1, 0) == 1,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
