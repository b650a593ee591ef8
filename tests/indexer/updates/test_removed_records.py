"""Updates restore what a rebuild removed because its source lacked it: such a removal has no time of its own."""

from typing import Any

import pytest

from indexer import RunStage, open_source, rollback
from indexer.verify.verification import verify_against_source
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import DAYS, start, team
from tests.indexer.expected_state import TeamState, at_stage, rebuild, states, update_job
from tests.indexer.expected_state import start as start_states
from tests.indexer.raw_documents import put_document
from tests.records import deletion, envelope, write

REMOVED = TeamState(10, "b")
KEPT = {"a": TeamState(10, "a")}


async def is_equal(bench: Bench, *teams: dict[str, Any]) -> bool:
    """Whether the live teams are those of a source, byte for byte."""
    folder = write(bench.folder.parent / "expected", {COMPANY: [envelope(COMPANY)], TEAM: list(teams)})
    with open_source(str(folder)) as source:
        (result,) = await verify_against_source(bench.engine(), source, [TEAM], is_full=True)
    return result.is_equal


async def test_the_same_line_restores_a_removed_record_under_a_new_stamp(bench: Bench) -> None:
    one, other = team("one", 0), team("other", 0, "o")
    await start(bench, one, other)
    await bench.build({TEAM: [one]})
    removed = await bench.mark(TEAM)
    summary = await bench.update({TEAM: [one, other]})
    report = summary.report_for("teams")
    assert (report.indexed, report.unchanged, report.stale, summary.exit_code) == (1, 1, 0, 0)
    served = (await bench.served(TEAM))["o"]
    assert (served["deleted"], served["record"]["name"]) == (False, "other")
    assert served["sequence"] > removed.sequence
    assert await is_equal(bench, one, other)
    again = await bench.update({TEAM: [other]})
    assert again.report_for("teams").unchanged == 1
    assert (await bench.served(TEAM))["o"]["sequence"] == served["sequence"]


async def test_a_newer_line_restores_a_removed_record_and_an_older_one_does_not(bench: Bench) -> None:
    await start(bench, team("one", 0), team("other", 5, "o"))
    await bench.build({TEAM: [team("one", 0)]})
    summary = await bench.update({TEAM: [team("earlier", 3, "o")]})
    assert (summary.report_for("teams").stale, summary.exit_code) == (1, 1)
    assert (await bench.served(TEAM))["o"]["reason"] == "vanished"
    await bench.update({TEAM: [team("another of its time", 5, "o")]})
    assert await is_equal(bench, team("one", 0), team("another of its time", 5, "o"))
    await bench.update({TEAM: [team("newer", 6, "o")]})
    assert await is_equal(bench, team("one", 0), team("newer", 6, "o"))


async def test_a_deletion_of_a_removed_record_keeps_it_out(bench: Bench) -> None:
    await start(bench, team("one", 0), team("other", 5, "o"))
    await bench.build({TEAM: [team("one", 0)]})
    await bench.update({TEAM: [deletion(TEAM, "o", DAYS[5])]})
    await bench.update({TEAM: [team("other", 5, "o")]})
    assert (await bench.served(TEAM))["o"]["reason"] == "deleted"


async def test_a_removal_that_an_earlier_version_wrote_is_undone_alike(bench: Bench) -> None:
    """Earlier versions stored such a tombstone under a version above that of the record."""
    one, other = team("one", 0), team("other", 0, "o")
    await start(bench, one, other)
    await bench.build({TEAM: [one]})
    alias, tombstone = bench.connection.alias(TEAM), (await bench.served(TEAM))["o"]
    version = {"version": tombstone["version"] | 1022, "version_type": "external_gte"}
    await put_document(bench.client, alias, "o", tombstone, **version)
    await bench.update({TEAM: [other]})
    assert await is_equal(bench, one, other)
    await bench.update({TEAM: [team("newer", 1, "o")]})
    assert await is_equal(bench, one, team("newer", 1, "o"))


@pytest.mark.parametrize("stage", [RunStage.READING, RunStage.COMPARING, RunStage.FINISHING, RunStage.SWAPPING])
async def test_a_record_restored_during_a_rebuild_stays(bench: Bench, stage: RunStage) -> None:
    await start_states(bench, KEPT | {"b": REMOVED})
    await rebuild(bench, KEPT, 100)
    restore = at_stage(stage, update_job(bench, {"b": REMOVED}))
    await rebuild(bench, KEPT, 101, on_progress=restore)
    assert await states(bench) == KEPT | {"b": REMOVED}


async def test_a_rollback_keeps_a_record_that_was_restored_since(bench: Bench) -> None:
    await start_states(bench, KEPT | {"b": REMOVED})
    await rebuild(bench, KEPT, 100)
    await rebuild(bench, {"a": TeamState(50, "again")}, 101)
    await bench.update({TEAM: [team("back", 1, "b")]})
    await rollback(bench.engine(), TEAM)
    served = await states(bench)
    assert (served["a"], served["b"].name) == (KEPT["a"], "back")
