"""A full rebuild while updates come in and partners read: nothing is lost, and nothing appears behind a mark."""

import asyncio
import random
from collections.abc import Callable

from indexer.reporting.report import ResourceReport
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import Changes, ExpectedState, TeamState, lines, rebuild, start, states
from tests.indexer.live_watch import stamps, watch_live

SMALL = {"bulk_documents": 20, "bulk_bytes": 100_000, "shrink_limit": 1.0, "growth_limit": 1.0}
_SEED = 20261121


async def test_random_updates_during_rebuilds_lose_nothing(bench: Bench, amount: Callable[[int, int], int]) -> None:
    seed = _SEED
    model = ExpectedState({f"t{number}": TeamState(number % 7, f"name {number}") for number in range(400)})
    changes = Changes(random.Random(seed), 1_000)  # noqa: S311 - no secret
    await start(bench, model.live)
    for number in range(amount(2, 40)):
        steady = set(model.live)
        async with watch_live(bench, steady) as watch:
            await _round(bench, model, changes)
        where = f"seed {seed}, round {number}"
        found, mark = await states(bench), await bench.mark(TEAM)
        differing = {each for each in model.live | found if model.live.get(each) != found.get(each)}
        assert {each: (model.live.get(each), found.get(each)) for each in differing} == {}, where
        assert (watch.behind, watch.missing) == ([], set()), where
        assert watch.looks > 3, where
        assert max(sequence for _, sequence in (await stamps(bench)).values()) <= mark.sequence, where


async def _round(bench: Bench, model: ExpectedState, changes: Changes) -> None:
    """Update, then rebuild from a source that lacks some and has others older, newer or changed; update throughout."""
    await _updated(bench, model, changes)
    changes.moment += 1
    source, taken_at = _source(model, changes), changes.moment
    before, published, held = dict(model.live), await bench.mark(TEAM), await stamps(bench)
    model.written.clear()
    begun, over = asyncio.Event(), asyncio.Event()

    def show(_report: ResourceReport) -> None:
        begun.set()

    updating = asyncio.create_task(_updating(bench, model, changes, (begun, over)))
    await rebuild(bench, source, taken_at, on_progress=show, **SMALL)
    over.set()
    await updating
    written = set(model.written)
    model.rebuild(before, source, taken_at)
    after = await stamps(bench)
    for identifier in set(before) - written:
        is_same = before[identifier][1:] == model.live[identifier][1:]
        assert (after[identifier] == held[identifier]) is is_same, f"{identifier}, seed {_SEED}"
        assert is_same or after[identifier] > (published.clock, published.sequence)


def _source(model: ExpectedState, changes: Changes) -> dict[str, TeamState]:
    """Return a full source: some records are lacking, changed at their moment or later, or as they once were."""
    source: dict[str, TeamState] = {}
    for identifier, known in model.live.items():
        chance, name = changes.chance.random(), f"source of {changes.moment}"
        if known.name is None:
            source |= {identifier: TeamState(max(0, known.moment - 1), name)} if chance < 0.5 else {}
        elif chance < 0.5:
            source[identifier] = known
        elif chance < 0.9:
            source[identifier] = TeamState(
                changes.moment if chance < 0.7 else max(0, known.moment - (chance < 0.8)), name
            )
    return source


async def _updating(
    bench: Bench, model: ExpectedState, changes: Changes, events: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, over = events
    await begun.wait()
    while not over.is_set():
        await _updated(bench, model, changes)
    await _updated(bench, model, changes)


async def _updated(bench: Bench, model: ExpectedState, changes: Changes) -> None:
    some = changes.some(model.live, 15)
    await bench.update({TEAM: lines(some)})
    for identifier, state in some:
        model.update(identifier, state)
