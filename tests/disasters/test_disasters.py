"""Runs of the game of disasters: `make disasters` runs it in full."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from embedded import EmbeddedCluster
from mappings import LISTING
from tests.disasters.disaster_game import DisasterGame, Lie
from tests.disasters.disaster_machine import DisasterMachine
from tests.disasters.disaster_run import RunLog
from tests.disasters.disaster_world import DisasterWorld, opened_world
from tests.disasters.readers import PullClient
from tests.simulation.model import FORMS, Change

Play = Callable[[Callable[[DisasterGame], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def world(
    cluster: EmbeddedCluster, backups: Path, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DisasterWorld]:
    making = opened_world(cluster.url, tmp_path_factory.mktemp("disasters"), backups)
    yield runner.run(making.__aenter__())
    runner.run(making.__aexit__(None, None, None))


@pytest.fixture
def play(world: DisasterWorld, runner: asyncio.Runner) -> Play:
    """Play a script, and clean up after it."""

    async def played(script: Callable[[DisasterGame], Awaitable[None]]) -> None:
        game = DisasterGame(world, RunLog())
        try:
            await script(game)
        finally:
            await game.end()

    return lambda script: runner.run(played(script))


async def _restore_unnoticed(game: DisasterGame, *, is_declared: bool) -> None:
    """Undo a change by a restore, and publish as many changes afterwards as were undone."""

    async def publish(*changes: tuple[int, Change]) -> None:
        assert await game.run.update(LISTING, game.run.sources[LISTING].changed(changes))
        for number in range(len(game.readers)):
            await game.read(number, math.inf, 0)

    await game.start([(0, FORMS[5]), (1, FORMS[6])])
    await publish((0, FORMS[7]))
    await game.run.back_up()
    await publish((1, FORMS[8]))
    await game.restore(game.run.backups[0], "everything", LISTING, is_declared=is_declared)
    while game.run.steps:
        await game.step()
    await publish((2, FORMS[9]))
    await game.settle()


@pytest.mark.parametrize("is_declared", [False, True])
def test_a_restore_is_noticed(play: Play, *, is_declared: bool) -> None:
    play(lambda game: _restore_unnoticed(game, is_declared=is_declared))


def test_a_lie_is_found_without_epochs(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.health.checks.replacement", lambda *_: None)
    monkeypatch.setattr("indexer.control.is_replaced", lambda *_: False)
    with pytest.raises(Lie, match="served and copied"):
        play(lambda game: _restore_unnoticed(game, is_declared=False))


def test_a_client_without_a_copy_is_not_current_with_an_empty_cluster(play: Play) -> None:
    async def pull_what_was_lost(game: DisasterGame) -> None:
        client = next(number for number, reader in enumerate(game.readers) if isinstance(reader, PullClient))
        await game.start([(0, FORMS[5])])
        await game.read(0, math.inf, 0)  # the service remembers the companies
        await game.lose_everything()
        game.run.set_clocks(indexer=-3600)
        # Is refused, but creates the index of the marks.
        await game.run.rebuild(LISTING, game.run.sources[LISTING].full(), math.inf)
        await game.run.look()
        await game.read(client, math.inf, 0)
        await game.settle()

    play(pull_what_was_lost)


@pytest.mark.parametrize("damage", ["closed index", "full disks"])
def test_everyone_continues_after_a_restore_of_what_was_damaged(play: Play, damage: str) -> None:
    async def back_up_what_is_damaged(game: DisasterGame) -> None:
        await game.start([(0, FORMS[5]), (1, FORMS[6])])
        await (game.run.close(LISTING) if damage == "closed index" else game.run.fill_disk(is_full=True))
        await game.run.back_up()
        await game.settle()
        await game.restore(game.run.backups[0], "everything", LISTING, is_declared=False)
        await game.settle()

    play(back_up_what_is_damaged)


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
