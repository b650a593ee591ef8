"""Force takes the candidate that was refused, without reading its source again, if nothing has changed since."""

import pytest
from msgspec.structs import replace

from indexer import ResourceReport, RunStage
from indexer.generations.checkpoint import BuildCheckpoint
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.rebuild.test_swap_gate import start, teams
from tests.records import envelope, write


async def forced(bench: Bench, *, stages: list[RunStage] | None = None) -> ResourceReport:
    """Rebuild the teams with force."""
    seen = [] if stages is None else stages
    summary = await bench.build_folder([TEAM], force=True, on_progress=lambda report: seen.append(report.stage))
    return summary.report_for("teams")


async def test_the_refused_candidate_is_taken_without_reading(bench: Bench) -> None:
    await start(bench)
    assert (await bench.build({TEAM: teams(3)})).exit_code == 1
    stages: list[RunStage] = []
    report = await forced(bench, stages=stages)
    assert RunStage.READING not in stages
    assert (report.stage, report.is_taken, report.read, report.vanished) == (RunStage.SWAPPED, True, 3, 27)
    assert ["would remove 27 of 30" in objection for objection in report.overridden] == [True]
    assert await bench.live(TEAM) == "teams-v0002"
    assert sum(not document["deleted"] for document in (await bench.served(TEAM)).values()) == 3


async def test_what_was_refused_while_it_was_read_is_read_to_its_end(bench: Bench) -> None:
    await start(bench)
    lines = [*teams(30, name="new"), *[b'{"record": {"uuid": "t1"}}'] * 400, *teams(20, first=30)]
    refused = (await bench.build({TEAM: lines}, bulk_documents=20)).report_for("teams")
    assert refused.read < 450
    assert f"{refused.dead} of {refused.read} teams are bad, more than " in str(refused.refusal)
    assert [(cause.count, cause.example) for cause in refused.causes] == [
        (refused.dead, f"teams.ndjson:31: {member}: is missing") for member in ("updated_at", "platform_company_id")
    ]
    report = await forced(bench)
    assert report.resumed_at == refused.read
    assert (report.read, report.dead, report.stage) == (450, 400, RunStage.SWAPPED)
    assert len(bench.letters()) == 400
    assert len(await bench.served(TEAM)) == 50
    assert await bench.live(TEAM) == "teams-v0002"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("source", "the source has changed since"),
        ("live", "another version is live since"),
        ("companies", "the known companies have changed since"),
        ("refusal", "its refusal cannot be overridden"),
    ],
)
async def test_force_says_why_it_reads_again(bench: Bench, changed: str, said: str) -> None:
    await start(bench)
    await bench.build({TEAM: teams(3)})
    checkpoint = BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM))
    progress = await checkpoint.read()
    assert progress is not None
    if changed == "source":
        write(bench.folder, {TEAM: teams(4)})
    elif changed == "live":
        progress.basis = replace(progress.basis, live=f"{bench.connection.alias(TEAM)}-v0000")
    elif changed == "companies":
        write(
            bench.folder,
            {COMPANY: [envelope(COMPANY), envelope(COMPANY, {"platform_company_id": "b", "numeric_id": "9"})]},
        )
    else:
        progress.is_overridable = False
    await checkpoint.write(progress)
    report = await forced(bench)
    candidate = f"{bench.connection.alias(TEAM)}-v0002"
    assert report.warnings == [f"{candidate} was refused and is not taken but built again: {said}"]
    assert (report.stage, report.is_taken, await bench.live(TEAM)) == (RunStage.SWAPPED, False, "teams-v0003")


async def test_without_force_a_refused_candidate_is_built_again(bench: Bench) -> None:
    await start(bench)
    await bench.build({TEAM: teams(3)})
    report = (await bench.build_folder([TEAM])).report_for("teams")
    assert (report.stage, report.resumed_at, report.warnings) == (RunStage.REFUSED, 0, [])
    assert report.generation == f"{bench.connection.alias(TEAM)}-v0003"


async def test_what_force_has_overridden_does_not_pass_without_it(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: [envelope(OFFICE)], TEAM: teams(30)})
    write(bench.folder, {TEAM: teams(3)})
    # The teams are forced past the gate, but not swapped in: the run ends with the offices.
    alias = bench.connection.alias(OFFICE)
    await bench.client.indices.put_alias(index=f"{bench.connection.alias(TEAM)}-v0001", name=alias)
    stopped = await bench.build_folder([TEAM, OFFICE], force=True)
    assert [stopped.report_for(name).stage for name in ("offices", "teams")] == [RunStage.REFUSED, RunStage.BUILT]
    await bench.client.indices.delete_alias(index=f"{bench.connection.alias(TEAM)}-v0001", name=alias)
    again = (await bench.build_folder([TEAM])).report_for("teams")
    assert again.stage is RunStage.REFUSED
    assert "would remove 27 of 30 live teams" in str(again.refusal)
    report = await forced(bench)
    assert (report.stage, report.is_taken, len(report.overridden)) == (RunStage.SWAPPED, True, 1)
