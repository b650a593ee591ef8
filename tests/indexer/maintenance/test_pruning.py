"""Swap and pruning: where the alias points, what is kept, and what happens to an interrupted build."""

from typing import Any

import pytest
from msgspec.structs import replace

from indexer import RunStage, prunable, prune
from indexer.bulk import delete_documents
from indexer.changes.write_session import open_write_session
from indexer.errors import ElasticsearchError
from indexer.generations.checkpoint import BuildCheckpoint
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.lock import remove_fence
from indexer.scan import look_up_rows
from mappings import COMPANY, TEAM
from tests.indexer.client_requests import Killed, before, behind, kill
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage
from tests.records import envelope


async def build(bench: Bench, name: str, **settings: Any) -> None:
    summary = await bench.build({COMPANY: [envelope(COMPANY, {"name": name})]}, **settings)
    assert summary.exit_code == 0


async def company_name(bench: Bench) -> str:
    return str((await bench.served(COMPANY))["acme"]["record"]["name"])


async def test_a_rebuild_swaps_and_keeps_the_configured_generations(bench: Bench) -> None:
    for number in (1, 2, 3):
        await build(bench, f"name {number}", kept_generations=2)
    assert await bench.indices() == ["companies-v0002", "companies-v0003"]
    assert await company_name(bench) == "name 3"
    await build(bench, "name 4", kept_generations=1)
    assert await bench.indices() == ["companies-v0004"]


async def test_pruning_deletes_left_overs_of_failed_builds_and_nothing_that_is_kept(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    lifecycle = GenerationLifecycle(bench.engine(), COMPANY)
    left = await lifecycle.create(await lifecycle.generations())
    neighbour = f"{bench.connection.prefix}companies-vx-v0001"
    await bench.client.indices.create(index=neighbour)
    assert await prunable(bench.engine()) == ([left], 0, 0)
    assert await prune(bench.engine()) == ([left], 0, 0)
    assert await bench.indices() == ["companies-v0001", "companies-v0002", "companies-vx-v0001"]
    assert await bench.live(COMPANY) == "companies-v0002"


TEAMS = [envelope(TEAM, {"uuid": f"t{number}", "name": "new"}) for number in range(30)]


async def interrupted(bench: Bench, stage: RunStage) -> str:
    """Interrupt a second build of teams, and return its candidate without the prefix."""
    old = [envelope(TEAM, {"uuid": f"t{number}", "name": "old"}) for number in range(30)]
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: old})
    with pytest.raises(Killed):
        await bench.build({TEAM: TEAMS}, on_progress=at_stage(stage, kill))
    assert await bench.indices() == ["companies-v0001", "teams-v0001", "teams-v0002"]
    assert {document["record"]["name"] for document in (await bench.served(TEAM)).values()} == {"old"}
    return "teams-v0002"


async def identity(bench: Bench, index: str) -> str:
    """Return what distinguishes an index from another of the same name."""
    name = f"{bench.connection.prefix}{index}"
    return str((await bench.client.indices.get_settings(index=name))[name]["settings"]["index"]["uuid"])


@pytest.mark.parametrize("stage", [RunStage.READING, RunStage.COMPARING, RunStage.FINISHING, RunStage.SWAPPING])
async def test_an_interrupted_build_resumes(bench: Bench, stage: RunStage) -> None:
    candidate = await interrupted(bench, stage)
    first = await identity(bench, candidate)
    summary = await bench.build_folder([TEAM])
    report = summary.report_for("teams")
    assert (report.read, report.indexed, report.dead, report.refusal) == (30, 30, 0, None)
    assert await bench.live(TEAM) == candidate
    assert await identity(bench, candidate) == first
    served = await bench.served(TEAM)
    assert {document["record"]["name"] for document in served.values()} == {"new"}
    assert sorted(document["sequence"] for document in served.values()) == list(range(31, 61))
    assert await BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM)).read() is None


async def test_a_build_whose_candidate_was_lost_with_a_node_starts_over(bench: Bench) -> None:
    candidate = await interrupted(bench, RunStage.COMPARING)
    first = await identity(bench, candidate)
    health = f"GET /_cluster/health/{bench.connection.prefix}{candidate}"
    with behind(bench.client, health, lambda body: body.update(status="red")):
        summary = await bench.build_folder([TEAM], green_seconds=1)
    report = summary.report_for("teams")
    assert (report.read, report.dead, report.refusal) == (30, 0, None)
    assert any("is built again from the beginning" in warning for warning in report.warnings)
    assert await identity(bench, await bench.live(TEAM)) != first
    assert {document["record"]["name"] for document in (await bench.served(TEAM)).values()} == {"new"}


async def test_what_an_interrupted_build_had_stamped_keeps_the_order_of_the_source(bench: Bench) -> None:
    old = [envelope(TEAM, {"uuid": f"t{number}", "name": "old"}) for number in range(30)]
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: old})
    swap = f"'alias': '{bench.connection.alias(TEAM)}'"
    with before(bench.client, "POST /_aliases", kill, having=swap), pytest.raises(Killed):
        await bench.build({TEAM: TEAMS})
    await bench.build_folder([TEAM])
    assert await bench.live(TEAM) == "teams-v0002"
    served = await bench.served(TEAM)
    assert sorted(served, key=lambda name: served[name]["sequence"]) == [f"t{number}" for number in range(30)]
    assert sorted(document["sequence"] for document in served.values()) == list(range(31, 61))


@pytest.mark.parametrize("what", ["source", "live", "shape"])
async def test_an_interrupted_build_of_another_source_live_generation_or_shape_is_discarded(
    bench: Bench, what: str
) -> None:
    candidate = await interrupted(bench, RunStage.SWAPPING)
    checkpoint = BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM))
    progress = await checkpoint.read()
    assert progress is not None
    if what == "source":
        await bench.build({TEAM: TEAMS[:29]})
    elif what == "live":
        progress.basis = replace(progress.basis, live=f"{bench.connection.alias(TEAM)}-v0000")
    else:
        progress.basis = replace(progress.basis, fingerprint="another")
    if what != "source":
        await checkpoint.write(progress)
        await bench.build_folder([TEAM])
    assert candidate not in await bench.indices()
    assert await bench.live(TEAM) == "teams-v0003"
    names = [document.get("record", {}).get("name") for document in (await bench.served(TEAM)).values()]
    assert names.count("new") == (29 if what == "source" else 30)
    assert names.count(None) == (what == "source")


async def test_an_index_with_the_name_of_an_alias_is_refused(bench: Bench) -> None:
    await bench.client.indices.create(index=bench.connection.alias(TEAM))
    summary = await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    assert "is an index, not an alias: rename or delete that index" in str(summary.report_for("teams").refusal)
    assert summary.report_for("companies").stage is RunStage.BUILT
    await bench.client.indices.delete(index=bench.connection.alias(TEAM))


async def test_an_alias_of_two_indices_is_refused(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    alias = bench.connection.alias(COMPANY)
    await bench.client.indices.put_alias(index=f"{alias}-v0001", name=alias)
    summary = await bench.build({})
    assert f"The alias {alias} points to {alias}-v0001, {alias}-v0002" in str(summary.report_for("companies").refusal)


async def test_a_tombstone_that_is_not_deleted_is_not_counted_as_gone(bench: Bench) -> None:
    await build(bench, "the only one")
    async with open_write_session(bench.engine(), COMPANY, lambda _: None) as writer:
        await remove_fence(bench.engine(), writer.live, writer.fence)
        rows = [*(await look_up_rows(writer.context, writer.live, ["acme"])).values()]
        with pytest.raises(ElasticsearchError, match="did not delete a document: no such index"):
            await delete_documents(writer.sender(), rows)
    assert await company_name(bench) == "the only one"
