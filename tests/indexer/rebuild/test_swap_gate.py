"""The gate before a swap: each bound refuses with a reason, keeps the live generation, and yields to force only."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from indexer import ResourceStatus, RunStage, prunable, prune, status
from indexer.generations.checkpoint import BuildCheckpoint
from mappings import COMPANY, TEAM
from tests.indexer.client_requests import behind
from tests.indexer.command.test_command import lines, run
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import delete_document, get_document, put_document
from tests.records import deletion, envelope, write

BAD = b"{}"


def teams(count: int, first: int = 0, name: str = "n") -> list[Any]:
    return [envelope(TEAM, {"uuid": f"t{number}", "name": name}) for number in range(first, first + count)]


async def start(bench: Bench, count: int = 30) -> None:
    """Build the company of the test records, and its teams."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: teams(count)})).exit_code == 0


async def state(bench: Bench) -> ResourceStatus:
    return next(one for one in await status(bench.engine()) if one.resource == "teams")


REFUSED = {
    "shrink": (
        teams(19),
        "would remove 11 of 30 live teams, more than BROKERAGE_SHRINK_LIMIT (0.05) allows: 11 of 30 of acme "
        "(t19, t20, t21 and 8 more). Correct the source, or confirm with --force",
    ),
    "growth": (
        teams(46),
        "has 46 records, the live version has 30: it gains more than BROKERAGE_GROWTH_LIMIT (0.5) allows",
    ),
    "empty": (
        [deletion(TEAM, f"t{number}") for number in range(30)],
        "has no records, the live version has 30: the source may be incomplete",
    ),
    "dead letters": (
        [*teams(30), *[BAD] * 11],
        "11 of 41 teams are bad, more than BROKERAGE_DEAD_LETTER_LIMIT (0.01) allows, see ",
    ),
}
bounds = pytest.mark.parametrize("bound", REFUSED)


@bounds
async def test_each_bound_refuses_and_keeps_the_candidate_to_be_looked_at(bench: Bench, bound: str) -> None:
    await start(bench)
    before, (source, said) = await bench.served(TEAM), REFUSED[bound]
    folder = write(bench.folder, {TEAM: source})
    code, out, err = await run(bench, "reindex", folder, "teams", "--json")
    refusal, *causes = err.splitlines()
    assert (code, bool(causes)) == (1, bound == "dead letters")
    assert said in refusal
    assert causes in ([], [f"  11 like teams.ndjson:31: {field}: is missing" for field in ("updated_at", "record")])
    assert refusal.endswith("Nothing was switched.")
    assert lines(out)[-1]["resources"]["teams"]["stage"] == RunStage.REFUSED
    assert (await bench.served(TEAM), await bench.live(TEAM)) == (before, "teams-v0001")
    now = await state(bench)
    assert now.build is not None
    candidate = f"{bench.connection.alias(TEAM)}-v0002"
    assert (now.build.candidate, now.build.refusal is not None, now.others) == (candidate, True, [candidate])
    code, out, err = await run(bench, "status")
    assert f"{candidate} was refused and is kept for inspection" in out.replace("\n", " ")


@bounds
async def test_force_goes_through_and_names_what_it_overrode(bench: Bench, bound: str) -> None:
    await start(bench)
    source, said = REFUSED[bound]
    folder = write(bench.folder, {TEAM: source})
    code, out, err = await run(bench, "reindex", folder, "teams", "--force", "--json")
    assert code == (1 if bound == "dead letters" else 0)
    report = lines(out)[-1]["resources"]["teams"]
    assert [said in objection for objection in report["overridden"]] == [True]
    assert err.splitlines()[0] == f"Overridden: {report['overridden'][0]}."
    assert (report["stage"], await bench.live(TEAM)) == (RunStage.SWAPPED, "teams-v0002")


async def test_force_names_everything_that_it_overrode(bench: Bench) -> None:
    await start(bench)
    summary = await bench.build({TEAM: [*teams(1), *[BAD] * 11]}, force=True)
    unreadable, first, second = summary.report_for("teams").overridden
    assert "may be in lines that cannot be read" in unreadable
    assert "BROKERAGE_DEAD_LETTER_LIMIT" in first
    assert "BROKERAGE_SHRINK_LIMIT" in second


async def test_the_next_run_discards_what_was_refused(bench: Bench) -> None:
    await start(bench)
    assert (await bench.build({TEAM: teams(1)})).exit_code == 1
    assert (await bench.build_folder([TEAM])).exit_code == 1
    assert [name for name in await bench.indices() if "teams" in name] == ["teams-v0001", "teams-v0003"]
    assert (await bench.build({TEAM: teams(30, name="new")})).exit_code == 0
    assert [name for name in await bench.indices() if "teams" in name] == ["teams-v0001", "teams-v0004"]
    assert await bench.live(TEAM) == "teams-v0004"
    assert (await state(bench)).build is None


async def test_pruning_removes_what_was_refused_and_its_checkpoint(bench: Bench) -> None:
    await start(bench)
    await bench.build({TEAM: teams(1)})
    candidate = f"{bench.connection.alias(TEAM)}-v0002"
    assert await prunable(bench.engine()) == ([candidate], 0, 0)
    assert await prune(bench.engine()) == ([candidate], 0, 0)
    assert await BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM)).read() is None
    assert ((await state(bench)).build, (await state(bench)).others) == (None, [])


async def lose_one(bench: Bench, index: str) -> None:
    await delete_document(bench.client, index, "t0", refresh=True)


async def alter_one(bench: Bench, index: str) -> None:
    """Change a loaded team, under a version that is as old."""
    found = await get_document(bench.client, index, "t7")
    found["_source"]["record"]["name"] = "old"
    await put_document(
        bench.client, index, "t7", found["_source"], version=found["_version"], version_type="external_gte"
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lose_one, "teams-v0002 has 29 documents, but 30 were accepted: run it again."),
        (alter_one, "teams-v0002 differs from what was read: t7. Run it again."),
    ],
)
async def test_what_is_not_stored_as_it_was_read_is_refused_even_with_force(
    bench: Bench, fault: Callable[[Bench, str], Awaitable[None]], said: str
) -> None:
    await start(bench)
    index = f"{bench.connection.alias(TEAM)}-v0002"
    with behind(bench.client, f"POST /{index}/_refresh", lambda _: fault(bench, index)):
        summary = await bench.build({TEAM: teams(30, name="new")}, force=True)
    assert said in str(summary.report_for("teams").refusal)
    now = await state(bench)
    assert now.build is not None
    assert (now.build.refusal is not None, await bench.live(TEAM)) == (True, "teams-v0001")
    assert set((await bench.names()).values()) == {"n"}
