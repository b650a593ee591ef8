"""`status`, and expired tombstones: pruned, left out of rebuilds, never served."""

import math
from contextlib import AbstractContextManager
from typing import Any

import pytest

from brokerage.index.maintain import status_notes
from indexer import ResourceStatus, RunStage, prunable, prune, status
from mappings import COMPANY, TEAM
from tests.indexer.client_requests import Killed, kill
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage
from tests.indexer.maintenance.test_pruning import build
from tests.indexer.shifted_clock import shifted_clock
from tests.records import deletion, envelope

UPDATED_AT, MILLISECONDS = "2026-01-02T03:04:05.678Z", 1_767_323_045_678


async def of(bench: Bench, name: str) -> ResourceStatus:
    return next(one for one in await status(bench.engine()) if one.resource == name)


async def test_status_reports_what_is_live_and_what_is_stale(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    first, *others = await status(bench.engine())
    prefix = bench.connection.prefix
    assert (first.resource, first.alias) == ("companies", f"{prefix}companies")
    assert (first.live, first.others) == (f"{prefix}companies-v0002", [f"{prefix}companies-v0001"])
    assert (first.documents, first.tombstones, first.is_current) == (1, 0, True)
    assert first.size > 0
    assert first.mark == (await bench.mark(COMPANY)).clock
    assert first.build is None
    assert all(other.live is None and other.mark is None and not other.is_current for other in others)
    assert all(other.last is None and other.build is None for other in others)
    await bench.client.indices.put_mapping(index=f"{prefix}companies-v0002", meta={"fingerprint": "another"})
    assert (await of(bench, "companies")).is_current is False


async def test_status_names_a_shard_without_replica_and_one_on_no_node(bench: Bench) -> None:
    teams = [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(4)]
    await bench.build({TEAM: teams}, shards=("teams=2",), replicas="1", green_seconds=0)
    (problem,) = (await of(bench, "teams")).shard_problems
    assert "teams-v0001: shards 0, 1 of 2 lack a replica (" in problem
    settings = {"index.number_of_shards": 2, "index.routing.allocation.require._name": "nowhere"}
    alias: dict[str, Any] = {f"{bench.connection.prefix}agents": {}}
    index = f"{bench.connection.prefix}agents-v0001"
    await bench.client.indices.create(index=index, settings=settings, aliases=alias, wait_for_active_shards=0)
    broken = await of(bench, "agents")
    assert (broken.documents, broken.tombstones) == (None, None)
    assert "no node has shards 0, 1 of 2" in broken.shard_problems[0]
    assert broken.shard_problems[0] in [*status_notes([broken])]


async def test_status_reports_the_last_run_and_its_lag(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, updated_at=UPDATED_AT), b"{}"]})
    built = (await of(bench, "teams")).last
    assert built is not None
    assert (built.verb, built.newest, built.read, built.dead) == ("reindex", MILLISECONDS, 2, 1)
    assert built.dead_letters is not None
    assert built.dead_letters.startswith(bench.settings.dead_letter_folder)
    assert built.at > built.newest
    await bench.update({TEAM: [envelope(TEAM, updated_at="2026-01-02T03:04:06.678Z"), deletion(TEAM, "x")]})
    updated = (await of(bench, "teams")).last
    assert updated is not None
    assert (updated.verb, updated.newest, updated.read, updated.dead) == ("update", MILLISECONDS + 1000, 2, 0)
    assert updated.dead_letters is None
    assert updated.at >= built.at
    code, out, err = await run(bench, "status", COLUMNS="200")
    assert (code, err) == (0, "")
    _, row = [line for line in out.splitlines() if line.startswith("teams")]
    assert " update " in row
    assert " days, " in row


async def test_status_reports_an_unfinished_build(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    with pytest.raises(Killed):
        await bench.build({TEAM: [envelope(TEAM, {"name": "new"})]}, on_progress=at_stage(RunStage.SWAPPING, kill))
    state, candidate = await of(bench, "teams"), f"{bench.connection.alias(TEAM)}-v0002"
    assert state.build is not None
    assert (state.build.candidate, state.build.refusal, state.build.line) == (candidate, None, 1)
    assert (state.build.phase, state.others) == ("passed", [candidate])
    _, out, _ = await run(bench, "status")
    assert f"{candidate} is in progress or interrupted, at line 1 (passed)." in out.splitlines()
    await bench.build_folder([TEAM])
    assert (await of(bench, "teams")).build is None


async def start(bench: Bench) -> None:
    """Build three teams, and delete one of them by an update, so that its clock is the present."""
    teams = [envelope(TEAM, {"uuid": name}) for name in ("t", "gone", "lacking")]
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: teams})
    await bench.update({TEAM: [deletion(TEAM, "gone", "2026-02-01T00:00:00Z")]})


async def held(bench: Bench) -> dict[str, Any]:
    """Return for each indexed team whether it is deleted."""
    return {identifier: document["deleted"] for identifier, document in (await bench.served(TEAM)).items()}


def after_days(days: float) -> AbstractContextManager[object]:
    """Let tombstones age by that many days."""
    return shifted_clock(days * 86_400)


async def test_tombstones_are_pruned_past_their_days_and_not_before(bench: Bench) -> None:
    await start(bench)
    before, engine = await bench.mark(TEAM), bench.engine(clock_seconds=math.inf)
    with after_days(29.9):
        assert await prunable(engine) == await prune(engine) == ([], 0, 0)
        assert (await held(bench))["gone"] is True
    with after_days(30.1):
        assert await prunable(engine) == ([], 1, 0)
        assert await prune(engine) == ([], 1, 0)
        assert await held(bench) == {"t": False, "lacking": False}
        assert await prune(engine) == ([], 0, 0)
    assert (await bench.mark(TEAM)).sequence == before.sequence


async def test_tombstones_past_their_days_are_left_out_of_a_rebuild_and_others_are_not(bench: Bench) -> None:
    await start(bench)
    source = {TEAM: [envelope(TEAM, {"uuid": "t"})]}
    with after_days(29.9):
        report = (await bench.build(source, clock_seconds=math.inf)).report_for("teams")
    assert (report.carried, report.vanished) == (1, 1)
    assert await held(bench) == {"t": False, "gone": True, "lacking": True}
    with after_days(61):
        assert (await bench.build(source, clock_seconds=math.inf)).report_for("teams").carried == 0
    assert await held(bench) == {"t": False}


async def test_pruning_asks_and_takes_yes(bench: Bench) -> None:
    await start(bench)
    code, out, err = await run(bench, "prune", BROKERAGE_TOMBSTONE_DAYS="0")
    assert (code, out) == (1, "")
    assert "No index and 1 deleted record will be deleted. Continue? [y/N]: " in err
    assert (await held(bench))["gone"] is True
    code, out, err = await run(bench, "prune", "--yes", BROKERAGE_TOMBSTONE_DAYS="0")
    assert (code, out, err) == (0, "Deleted: no index, 1 deleted record.\n", "")
    assert "gone" not in await held(bench)
    code, out, err = await run(bench, "prune", "--json", BROKERAGE_TOMBSTONE_DAYS="0")
    assert (code, out, err) == (0, '{"deleted":[],"tombstones":0,"copies":0}\n', "")
