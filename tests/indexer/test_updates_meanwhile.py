"""Updates at each stage of a full rebuild, while partners read: each kind of record ends in the right state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer import Stage
from indexer.checkpoint import Checkpoint
from mappings import TEAM
from tests.indexer.model import State, at, attempt, beside, line, rebuild, start, states, updating
from tests.indexer.watch import stamps, watching

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench

VANISHED, DELETED = "vanished", "deleted"
BEFORE = {
    "same": State(10, "a"),
    "changed": State(10, "a"),
    "tied": State(10, "b"),
    "lacking": State(10, "a"),
    "lacking-newer-than-the-source": State(200, "a"),
    "lacking-touched": State(10, "a"),
    "lacking-written": State(10, "a"),
    "lacking-late": State(10, "a"),
    "deleted-before": State(10, None, DELETED),
    "deleted-later-than-the-source-says": State(60, None, DELETED),
    "deleted-meanwhile": State(10, "a"),
    "deleted-too-early": State(10, "a"),
    "written-older-than-the-source": State(10, "a"),
    "written-newer-than-the-source": State(10, "a"),
}
SOURCE = {
    "same": State(10, "a"),
    "changed": State(50, "source"),
    "tied": State(10, "source"),
    "deleted-later-than-the-source-says": State(50, "source"),
    "deleted-meanwhile": State(50, "source"),
    "deleted-too-early": State(50, "source"),
    "written-older-than-the-source": State(50, "source"),
    "written-newer-than-the-source": State(50, "source"),
    "only-in-the-source": State(5, "source"),
    "written-and-new-in-the-source": State(5, "source"),
}
MEANWHILE = {
    "lacking-touched": State(70, "a"),
    "lacking-written": State(71, "update"),
    "lacking-late": State(9, "late"),
    "deleted-meanwhile": State(72, None, DELETED),
    "deleted-too-early": State(40, None, DELETED),
    "written-older-than-the-source": State(41, "update"),
    "written-newer-than-the-source": State(73, "update"),
    "written-and-new-in-the-source": State(74, "update"),
    "only-written": State(75, "update"),
}
AFTER = {
    "same": State(10, "a"),
    "changed": State(50, "source"),
    "tied": State(10, "source"),
    "lacking": State(10, None, VANISHED),
    "lacking-newer-than-the-source": State(200, "a"),
    "lacking-touched": State(70, "a"),
    "lacking-written": State(71, "update"),
    "lacking-late": State(10, None, VANISHED),
    "deleted-before": State(10, None, DELETED),
    "deleted-later-than-the-source-says": State(60, None, DELETED),
    "deleted-meanwhile": State(72, None, DELETED),
    "deleted-too-early": State(50, "source"),
    "written-older-than-the-source": State(50, "source"),
    "written-newer-than-the-source": State(73, "update"),
    "only-in-the-source": State(5, "source"),
    "written-and-new-in-the-source": State(74, "update"),
    "only-written": State(75, "update"),
}
KEPT = {"same", "deleted-before", "lacking-newer-than-the-source", "deleted-later-than-the-source-says"}


@pytest.mark.parametrize("stage", [Stage.READING, Stage.COMPARING, Stage.FINISHING, Stage.SWAPPING])
async def test_updates_at_each_stage_of_a_rebuild_are_in_what_it_brings(bench: Bench, stage: Stage) -> None:
    await start(bench, BEFORE)
    before, published = await stamps(bench), await bench.mark(TEAM)
    async with watching(bench, set(BEFORE)) as watch:
        await rebuild(bench, SOURCE, 100, on_progress=at(stage, updating(bench, MEANWHILE)))
    after, mark = await stamps(bench), await bench.mark(TEAM)
    assert await states(bench) == AFTER
    assert {each for each in before if after[each] == before[each]} == KEPT | {"lacking-touched"}
    assert all(after[each] > (published.clock, 0) and after[each][1] > published.sequence for each in fresh(after))
    assert all(clock <= mark.clock and sequence <= mark.sequence for clock, sequence in after.values())
    assert (watch.behind, watch.missing) == ([], set())
    assert watch.looks > 1


def fresh(after: dict[str, tuple[int, int]]) -> set[str]:
    """Return the teams that appeared or changed."""
    return set(after) - KEPT - {"lacking-touched"}


async def test_what_an_incomplete_source_made_vanish_comes_back_with_its_old_time(bench: Bench) -> None:
    teams = {name: State(10, name) for name in ("a", "b", "c")}
    await start(bench, teams)
    await rebuild(bench, {"a": teams["a"]}, 100)
    assert (await states(bench))["b"] == State(10, None, VANISHED)
    gone = await bench.mark(TEAM)
    await bench.update({TEAM: [line("c", State(20, None))]})
    await rebuild(bench, teams, 101)
    assert await states(bench) == teams | {"c": State(20, None, DELETED)}
    assert (await stamps(bench))["b"][1] > gone.sequence


async def outdated(bench: Bench) -> None:
    """Write over a team as a program of another shape would."""
    alias, identifier = bench.connection.alias(TEAM), "newer"
    document = (await bench.served(TEAM))[identifier] | {"legacy": "a field that is no longer declared"}
    await bench.client.indices.put_mapping(index=alias, properties={"legacy": {"type": "keyword"}})
    version = {"version": document["version"], "version_type": "external_gte"}
    await bench.client.index(index=alias, id=identifier, document=document, refresh=True, **version)


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.SWAPPING])
async def test_a_record_that_does_not_fit_the_new_generation_refuses_the_swap(bench: Bench, stage: Stage) -> None:
    teams = {"a": State(10, "a"), "newer": State(200, "a")}
    await start(bench, teams)
    if stage is Stage.WAITING:
        await outdated(bench)
    summary = await attempt(bench, {"a": teams["a"]}, 100, on_progress=at(stage, lambda: beside(bench, outdated)))
    assert "newer cannot be taken over: " in str(summary.of("teams").refusal)
    assert await bench.live(TEAM) == "teams-v0001"
    assert await states(bench) == teams
    progress = await Checkpoint(bench.engine(), bench.connection.alias(TEAM)).read()
    assert progress is not None
    assert progress.refusal


async def test_many_updates_during_a_build_are_no_reason_to_refuse_it(bench: Bench) -> None:
    teams = {f"t{number}": State(10, "a") for number in range(30)}
    added = {f"n{number}": State(70, "a") for number in range(30)}
    await start(bench, teams)
    stage = at(Stage.READING, updating(bench, added))
    await rebuild(bench, teams, 100, on_progress=stage, shrink_limit=0.1, growth_limit=0.1)
    assert await states(bench) == teams | added
