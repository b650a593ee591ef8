"""Times beyond what the clock allows: refused in lines, and replaceable where they are live already."""

import datetime as dt
import os
from contextlib import closing
from typing import Any

import pytest

from indexer import open_source, rollback
from indexer.documents.companies import Companies
from indexer.generations.candidate import BuildJob, Candidate
from indexer.generations.gates import too_many_changes
from indexer.lock import open_run
from indexer.reporting.report import DeadLetters, ResourceReport
from indexer.verify.verification import (
    DifferenceKind,
    VerificationResult,
    verify_against_generation,
    verify_against_source,
)
from mappings import AGENT, COMPANY, LISTING, TEAM, Resource
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import DAYS, start, team
from tests.records import deletion, envelope, write

FUTURE = "2200-01-01T00:00:00Z"
CENTURIES = 10.0**10  # seconds: what programs without the limit accepted


def ahead(hours: float) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)).isoformat()


def dated(name: str, updated_at: str, identifier: str = "t") -> dict[str, Any]:
    return envelope(TEAM, {"uuid": identifier, "name": name}, updated_at=updated_at)


@pytest.mark.parametrize(
    ("resource", "member", "sent"),
    [
        (TEAM, "updated_at", FUTURE),
        (TEAM, "updated_at", ahead(25)),
        (LISTING, "shared_partner_data_updated_at", FUTURE),
        (AGENT, "deactivated_at", FUTURE),
    ],
    ids=["a century", "25 hours", "partner data", "deactivation"],
)
async def test_a_line_from_the_future_is_a_dead_letter_that_names_the_member(
    bench: Bench, resource: Resource, member: str, sent: str
) -> None:
    await bench.build({resource: [envelope(resource)]})
    summary = await bench.update({resource: [envelope(resource, None, **{member: sent})]})
    assert (summary.exit_code, summary.report_for(resource.alias).dead) == (1, 1)
    (letter,) = bench.letters()
    assert letter["field"] == member
    assert sent[:10] in letter["reason"]
    assert "BROKERAGE_FUTURE_SECONDS" in letter["reason"]


async def test_a_deletion_from_the_future_is_a_dead_letter_and_a_mislabelled_zone_is_not(bench: Bench) -> None:
    await start(bench, team("first", 0))
    summary = await bench.update({TEAM: [deletion(TEAM, "t", FUTURE), dated("local", ahead(14), "zone")]})
    assert (summary.report_for("teams").dead, summary.report_for("teams").indexed) == (1, 1)
    assert (await bench.names())["t"] == "first"


async def test_a_rebuild_counts_future_lines_as_dead_letters(bench: Bench) -> None:
    summary = await bench.build({TEAM: [dated("bad", FUTURE, "bad"), team("good", 1)]})
    assert summary.report_for("teams").dead == 1
    assert list(await bench.served(TEAM)) == ["t"]


@pytest.mark.parametrize("frozen", [dated("frozen", FUTURE), deletion(TEAM, "t", FUTURE)], ids=["record", "deletion"])
async def test_updates_replace_a_live_state_from_the_future_again_and_again(
    bench: Bench, frozen: dict[str, Any]
) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [frozen]}, future_seconds=CENTURIES)
    summary = await bench.update({TEAM: [team("right", 2)]})
    assert (summary.exit_code, summary.report_for("teams").indexed) == (0, 1)
    assert (await bench.names())["t"] == "right"
    await bench.update({TEAM: [team("stale", 1)]})
    assert (await bench.names())["t"] == "right"
    await bench.update({TEAM: [deletion(TEAM, "t", DAYS[3])]})
    assert (await bench.names())["t"] is None
    await bench.update({TEAM: [team("again", 4)]})
    assert (await bench.names())["t"] == "again"


async def test_the_same_content_under_a_right_time_thaws_a_record_and_keeps_its_stamp(bench: Bench) -> None:
    await start(bench, team("same", 0))
    await bench.update({TEAM: [dated("same", FUTURE)]}, future_seconds=CENTURIES)
    before = (await bench.served(TEAM))["t"]
    await bench.update({TEAM: [team("same", 2)]})
    after = (await bench.served(TEAM))["t"]
    assert (before["clock"], before["sequence"]) == (after["clock"], after["sequence"])
    assert after["version"] < before["version"]


async def test_a_record_from_the_future_moves_to_another_company(bench: Bench) -> None:
    other = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "7"})
    await bench.build({COMPANY: [envelope(COMPANY), other], TEAM: [team("first", 0)]})
    away = envelope(TEAM, {"uuid": "t", "name": "away"}, platform_company_id="other", updated_at=FUTURE)
    await bench.update({TEAM: [away]}, future_seconds=CENTURIES)
    await bench.update({TEAM: [team("back", 2)]})
    await bench.update({TEAM: [envelope(TEAM, {"uuid": "t"}, platform_company_id="other", updated_at=DAYS[3])]})
    served = await bench.served(TEAM)
    assert {key: (one["deleted"], one["company"]) for key, one in served.items()} == {
        "t": (False, "other"),
        "acme/t": (True, "acme"),
        "other/t": (True, "other"),
    }
    assert served["t"]["sequence"] > served["acme/t"]["sequence"] > served["other/t"]["sequence"]


async def test_a_rebuild_replaces_live_states_from_the_future_and_deletes_what_its_source_lacks(bench: Bench) -> None:
    await start(bench, team("first", 0), team("first", 0, "gone"))
    frozen = [dated("frozen", FUTURE), dated("frozen", FUTURE, "gone"), deletion(TEAM, "back", FUTURE)]
    await bench.update({TEAM: frozen}, future_seconds=CENTURIES)
    await start(bench, team("right", 2), team("back", 2, "back"))
    assert await bench.names() == {"t": "right", "back": "back", "gone": None}
    await bench.update({TEAM: [team("later", 3), team("older than the source", 4, "gone")]})
    assert await bench.names() == {"t": "later", "back": "back", "gone": None}


async def test_updates_during_a_rebuild_of_a_frozen_record_survive_it_and_a_rollback(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [dated("frozen", FUTURE)]}, future_seconds=CENTURIES)
    await start(bench, team("second", 2))
    await bench.update({TEAM: [team("third", 3)]})
    await rollback(bench.engine(), TEAM)
    assert (await bench.names())["t"] == "third"
    await bench.update({TEAM: [team("fourth", 4)]})
    await start(bench, team("fourth", 4))
    assert (await bench.names())["t"] == "fourth"


async def verified(bench: Bench, line: dict[str, Any]) -> list[VerificationResult]:
    """Compare the live teams with a source of one, by digests and in full."""
    folder = write(bench.folder.parent / "again", {COMPANY: [envelope(COMPANY)], TEAM: [line]})
    with open_source(str(folder)) as source:
        return [
            result
            for is_full in (False, True)
            for result in await verify_against_source(bench.engine(), source, [TEAM], is_full=is_full)
        ]


async def test_verify_names_live_states_from_the_future(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [dated("frozen", FUTURE)]}, future_seconds=CENTURIES)
    for result in await verified(bench, dated("frozen", FUTURE)):
        assert not result.is_equal
        (named,) = result.named[DifferenceKind.FUTURE]
        assert (named.id, (named.found or 0) >> 10) == ("t", 7_258_118_400_000_000)
    await bench.update({TEAM: [team("right", 2)]})
    assert [result.is_equal for result in await verified(bench, team("right", 2))] == [True, True]


async def test_verify_names_them_where_two_generations_agree(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [dated("frozen", FUTURE)]}, future_seconds=CENTURIES)
    await bench.build({TEAM: [dated("frozen", FUTURE)]}, future_seconds=CENTURIES)
    (result,) = await verify_against_generation(bench.engine(), [TEAM])
    assert [named.id for named in result.named[DifferenceKind.FUTURE]] == ["t"]


async def test_a_source_dated_in_the_future_does_not_delete_what_is_newer_than_now(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [dated("new", ahead(2), "new")]})
    folder = write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: [team("first", 0)]})
    os.utime(folder / "teams.ndjson", (4_000_000_000, 4_000_000_000))
    await bench.build_folder([TEAM])
    assert (await bench.names())["new"] == "new"


async def test_the_gate_names_what_stays_from_the_future(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.update({TEAM: [dated("frozen", FUTURE)]}, future_seconds=CENTURIES)
    live, report = bench.connection.prefix + await bench.live(TEAM), ResourceReport("teams")
    await bench.client.indices.refresh(index=live)
    with open_source(str(bench.folder)) as source, closing(DeadLetters(str(bench.folder), "teams")) as letters:
        job = BuildJob(TEAM, source, Companies(), report, letters, 0.0, False, print)
        async with open_run(bench.engine()) as lock:
            candidate = await Candidate.opened(bench.engine(), lock, job)
            candidate.progress.candidate = live
            assert await too_many_changes(candidate) is None
    (warning,) = report.warnings
    assert "keeps 1 record dated in the future (t)" in warning


async def test_a_company_from_the_future_does_not_decide_whose_records_are_read(bench: Bench) -> None:
    future = envelope(COMPANY, {"numeric_id": "9"}, updated_at=FUTURE)
    of_number = envelope(TEAM, {"uuid": "t"}, platform_company_id="4100")
    summary = await bench.build({COMPANY: [envelope(COMPANY), future], TEAM: [of_number]})
    assert (summary.report_for("companies").dead, summary.report_for("teams").dead) == (1, 0)
