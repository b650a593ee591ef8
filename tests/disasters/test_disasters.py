"""Runs of the game of disasters: `make disasters` runs it in full."""

from __future__ import annotations

import asyncio
import math
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from mappings import LISTING
from tests.chaos.machine_model import FORMS
from tests.disasters.disaster_game import DisasterGame, Lie
from tests.disasters.disaster_machine import DisasterMachine
from tests.disasters.disaster_world import DisasterWorld, opened_world
from tests.disasters.readers import PullClient
from tests.disasters.run_log import RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from embedded import EmbeddedCluster
    from tests.disasters.source_records import Change


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


async def _restore_unnoticed(world: DisasterWorld, *, is_declared: bool) -> None:
    """Undo a change by a restore, and publish as many changes afterwards as were undone."""
    game = DisasterGame(world, RunLog())
    run, listings = game.run, game.run.sources[LISTING]

    async def publish(*changes: Change) -> None:
        assert await run.update(LISTING, listings.changed(changes))
        for number in range(len(game.readers)):
            await game.read(number, math.inf, 0)

    try:
        await game.start([(0, FORMS[5]), (1, FORMS[6])])
        await publish((0, FORMS[7]))
        await run.back_up()
        await publish((1, FORMS[8]))
        await game.restore(run.backups[0], "everything", LISTING, is_declared=is_declared)
        while run.steps:
            await game.step()
        await publish((2, FORMS[9]))
        await game.settle()
    finally:
        await game.end()


@pytest.mark.parametrize("is_declared", [False, True])
def test_a_restore_is_noticed(world: DisasterWorld, runner: asyncio.Runner, *, is_declared: bool) -> None:
    runner.run(_restore_unnoticed(world, is_declared=is_declared))


async def _pull_from_an_empty_cluster(world: DisasterWorld) -> None:
    """Let the product's client, which has no copy yet, read what was lost; then build it again."""
    game = DisasterGame(world, RunLog())
    client = next(number for number, reader in enumerate(game.readers) if isinstance(reader, PullClient))
    try:
        await game.start([(0, FORMS[5])])
        await game.read(0, math.inf, 0)  # the service remembers the companies
        await game.lose_everything()
        game.run.set_clocks(indexer=-3600)
        # Is refused, but creates the index of the marks.
        await game.run.rebuild(LISTING, game.run.sources[LISTING].full(frozenset(), ""), math.inf)
        await game.run.look()
        await game.read(client, math.inf, 0)
        await game.settle()
    finally:
        await game.end()


def test_a_client_without_a_copy_is_not_current_with_an_empty_cluster(
    world: DisasterWorld, runner: asyncio.Runner
) -> None:
    runner.run(_pull_from_an_empty_cluster(world))


def test_a_lie_is_found_without_epochs(
    world: DisasterWorld, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.health.checks.replacement", lambda *_: None)
    monkeypatch.setattr("indexer.control.is_replaced", lambda *_: False)
    with pytest.raises(Lie, match="served and copied"):
        runner.run(_restore_unnoticed(world, is_declared=False))


def test_no_consumer_is_told_a_lie(
    world: DisasterWorld, runner: asyncio.Runner, amount: Callable[[int, int], int]
) -> None:
    DisasterMachine.world, DisasterMachine.runner, DisasterMachine.log = world, runner, RunLog()
    try:
        run_state_machine_as_test(
            DisasterMachine,
            settings=settings(
                max_examples=int(os.environ.get("DISASTER_RUNS") or amount(2, 500)),
                stateful_step_count=amount(15, 50),
                derandomize=amount(1, 0) == 1,
                database=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for name, count in sorted(DisasterMachine.log.counts.items()):
            print(f"{count:7,} {name}")


async def _restore_what_was_damaged(world: DisasterWorld, damage: str) -> None:
    """Restore a backup that was taken while an index was closed, or all indices refused writes."""
    game = DisasterGame(world, RunLog())
    try:
        await game.start([(0, FORMS[5]), (1, FORMS[6])])
        await (game.run.close(LISTING) if damage == "closed index" else game.run.fill_disk(is_full=True))
        await game.run.back_up()
        await game.settle()
        await game.restore(game.run.backups[0], "everything", LISTING, is_declared=False)
        await game.settle()
    finally:
        await game.end()


@pytest.mark.parametrize("damage", ["closed index", "full disks"])
def test_everyone_continues_after_a_restore_of_what_was_damaged(
    world: DisasterWorld, runner: asyncio.Runner, damage: str
) -> None:
    runner.run(_restore_what_was_damaged(world, damage))
