"""Updates at each stage of a full rebuild, under constant reading: each kind of record reaches the right state."""

import pytest

from indexer import RunStage
from indexer.generations.checkpoint import BuildCheckpoint
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import (
    TeamState,
    at_stage,
    line,
    rebuild,
    rebuild_summary,
    run_in_thread,
    start,
    states,
    update_job,
)
from tests.indexer.live_watch import stamps, watch_live
from tests.indexer.raw_documents import put_document
from tests.indexer.rebuild.two_companies import Loader, of, stored
from tests.indexer.rebuild.two_companies import teams as teams_of

OTHER = "north"
VANISHED, DELETED = "vanished", "deleted"
BEFORE = {
    "same": TeamState(10, "a"),
    "changed": TeamState(10, "a"),
    "tied": TeamState(10, "b"),
    "lacking": TeamState(10, "a"),
    "lacking-newer-than-the-source": TeamState(200, "a"),
    "lacking-touched": TeamState(10, "a"),
    "lacking-written": TeamState(10, "a"),
    "lacking-late": TeamState(10, "a"),
    "deleted-before": TeamState(10, None, DELETED),
    "deleted-later-than-the-source-says": TeamState(60, None, DELETED),
    "deleted-meanwhile": TeamState(10, "a"),
    "deleted-too-early": TeamState(10, "a"),
    "written-older-than-the-source": TeamState(10, "a"),
    "written-newer-than-the-source": TeamState(10, "a"),
}
SOURCE = {
    "same": TeamState(10, "a"),
    "changed": TeamState(50, "source"),
    "tied": TeamState(10, "source"),
    "deleted-later-than-the-source-says": TeamState(50, "source"),
    "deleted-meanwhile": TeamState(50, "source"),
    "deleted-too-early": TeamState(50, "source"),
    "written-older-than-the-source": TeamState(50, "source"),
    "written-newer-than-the-source": TeamState(50, "source"),
    "only-in-the-source": TeamState(5, "source"),
    "written-and-new-in-the-source": TeamState(5, "source"),
}
MEANWHILE = {
    "lacking-touched": TeamState(70, "a"),
    "lacking-written": TeamState(71, "update"),
    "lacking-late": TeamState(9, "late"),
    "deleted-meanwhile": TeamState(72, None, DELETED),
    "deleted-too-early": TeamState(40, None, DELETED),
    "written-older-than-the-source": TeamState(41, "update"),
    "written-newer-than-the-source": TeamState(73, "update"),
    "written-and-new-in-the-source": TeamState(74, "update"),
    "only-written": TeamState(75, "update"),
}
AFTER = {
    "same": TeamState(10, "a"),
    "changed": TeamState(50, "source"),
    "tied": TeamState(10, "source"),
    "lacking": TeamState(10, None, VANISHED),
    "lacking-newer-than-the-source": TeamState(200, "a"),
    "lacking-touched": TeamState(70, "a"),
    "lacking-written": TeamState(71, "update"),
    "lacking-late": TeamState(10, None, VANISHED),
    "deleted-before": TeamState(10, None, DELETED),
    "deleted-later-than-the-source-says": TeamState(60, None, DELETED),
    "deleted-meanwhile": TeamState(72, None, DELETED),
    "deleted-too-early": TeamState(50, "source"),
    "written-older-than-the-source": TeamState(50, "source"),
    "written-newer-than-the-source": TeamState(73, "update"),
    "only-in-the-source": TeamState(5, "source"),
    "written-and-new-in-the-source": TeamState(74, "update"),
    "only-written": TeamState(75, "update"),
}
KEPT = {"same", "deleted-before", "lacking-newer-than-the-source", "deleted-later-than-the-source-says"}


@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize("stage", [RunStage.READING, RunStage.COMPARING, RunStage.FINISHING, RunStage.SWAPPING])
async def test_updates_at_each_stage_of_a_rebuild_are_in_what_it_brings(
    bench: Bench, stage: RunStage, others: int
) -> None:
    await start(bench, BEFORE)
    if others:
        await Loader(bench, OTHER).load(teams_of(OTHER, others))
    of_others = of(await stored(bench.engine()), OTHER)
    assert len(of_others) == others
    before, published = await stamps(bench), await bench.mark(TEAM)
    async with watch_live(bench, set(BEFORE)) as watch:
        await rebuild(bench, SOURCE, 100, on_progress=at_stage(stage, update_job(bench, MEANWHILE)))
    after, mark = await stamps(bench), await bench.mark(TEAM)
    assert await states(bench) == AFTER
    assert of(await stored(bench.engine()), OTHER) == of_others
    same = {name for name in before if after[name] == before[name]}
    assert same == KEPT | {"lacking-touched"} | of_others.keys()
    new = fresh(after) - of_others.keys()
    assert all(after[name] > (published.clock, 0) and after[name][1] > published.sequence for name in new)
    assert all(clock <= mark.clock and sequence <= mark.sequence for clock, sequence in after.values())
    assert (watch.behind, watch.missing) == ([], set())
    assert watch.looks > 1


def fresh(after: dict[str, tuple[int, int]]) -> set[str]:
    """Return the teams that appeared or changed."""
    return set(after) - KEPT - {"lacking-touched"}


async def test_what_an_incomplete_source_made_vanish_comes_back_with_its_old_time(bench: Bench) -> None:
    teams = {name: TeamState(10, name) for name in ("a", "b", "c")}
    await start(bench, teams)
    await rebuild(bench, {"a": teams["a"]}, 100)
    assert (await states(bench))["b"] == TeamState(10, None, VANISHED)
    gone = await bench.mark(TEAM)
    await bench.update({TEAM: [line("c", TeamState(20, None))]})
    await rebuild(bench, teams, 101)
    assert await states(bench) == teams | {"c": TeamState(20, None, DELETED)}
    assert (await stamps(bench))["b"][1] > gone.sequence


async def outdated(bench: Bench) -> None:
    """Overwrite a team as a program with a different schema would."""
    alias, identifier = bench.connection.alias(TEAM), "newer"
    document = (await bench.served(TEAM))[identifier] | {"legacy": "a field that is no longer declared"}
    await bench.client.indices.put_mapping(index=alias, properties={"legacy": {"type": "keyword"}})
    version = {"version": document["version"], "version_type": "external_gte"}
    await put_document(bench.client, alias, identifier, document, **version)


@pytest.mark.parametrize("stage", [RunStage.WAITING, RunStage.SWAPPING])
async def test_a_record_that_does_not_fit_the_new_generation_refuses_the_swap(bench: Bench, stage: RunStage) -> None:
    teams = {"a": TeamState(10, "a"), "newer": TeamState(200, "a")}
    await start(bench, teams)
    if stage is RunStage.WAITING:
        await outdated(bench)
    summary = await rebuild_summary(
        bench, {"a": teams["a"]}, 100, on_progress=at_stage(stage, lambda: run_in_thread(bench, outdated))
    )
    assert "newer cannot be copied: " in str(summary.report_for("teams").refusal)
    assert await bench.live(TEAM) == "teams-v0001"
    assert await states(bench) == teams
    progress = await BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM)).read()
    assert progress is not None
    assert progress.refusal


async def test_many_updates_during_a_build_do_not_refuse_it(bench: Bench) -> None:
    teams = {f"t{number}": TeamState(10, "a") for number in range(30)}
    added = {f"n{number}": TeamState(70, "a") for number in range(30)}
    await start(bench, teams)
    stage = at_stage(RunStage.READING, update_job(bench, added))
    await rebuild(bench, teams, 100, on_progress=stage, shrink_limit=0.1, growth_limit=0.1)
    assert await states(bench) == teams | added
