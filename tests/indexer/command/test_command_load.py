"""`brokerage index update` and dry runs as an operator meets them: every kind of source, exit codes, what is said."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from mappings import COMPANY, LISTING, RESOURCES, TEAM
from tests.indexer.command.test_command import environment, lines, run
from tests.indexer.conftest import Bench
from tests.records import COMPANY_KEY, deletion, envelope, write

LATER = "2026-02-01T00:00:00Z"
UPDATES = [envelope(TEAM, {"uuid": "new"}), envelope(TEAM, {"name": "newer"}, updated_at=LATER), deletion(TEAM, "gone")]


async def start(bench: Bench) -> None:
    """Build the company of the test records, and a team."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})).exit_code == 0


def written(path: Path, sent: list[Any]) -> Path:
    """Write a file of envelopes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in sent))
    return path


async def test_rows_that_a_column_map_leaves_out_and_damaged_cells_are_counted(bench: Bench, tmp_path: Path) -> None:
    await start(bench)
    (tmp_path / "teams.csv").write_text("platform_team_id,uuid,state\nnew,new,live\n3,3.0,live\nold,old,draft\n")
    head = 'resource = "teams"\nfile = "teams.csv"\nupdated_at = "2026-02-01"\npass_through = true\n'
    table = tmp_path / "teams.toml"
    table.write_text(f'{head}skip_if = {{state = "draft"}}\nplatform_company_id = "{COMPANY_KEY}"\n')
    _, plain, told = await run(bench, "update", table)
    assert "teams: 2 read, 1 row left out (1 state is 'draft')" in plain
    warning = "uuid, column uuid: 1 cell with \".0\" at the end, such as '3.0' in teams.csv:3: set whole = true"
    assert f"Warning: {warning}.\n" in told
    _, printed, _ = await run(bench, "update", table, "--json")
    report = lines(printed)[-1]["resources"]["teams"]
    assert (report["skipped"], report["warnings"]) == (1, [warning])
    _, _, told = await run(bench, "reindex", table)
    assert f"Warning: {warning}.\n" in told


APPLIED = {"team-1": "newer", "new": "name of a test", "gone": None}


@pytest.mark.parametrize("kind", ["folder", "file named after its resource", "file with an option", "file of any"])
async def test_an_update_takes_a_folder_and_files(bench: Bench, kind: str) -> None:
    await start(bench)
    folder = bench.folder.parent / "changes"
    if kind == "folder":
        arguments: tuple[Any, ...] = (write(folder, {TEAM: UPDATES}),)
    elif kind == "file named after its resource":
        arguments = (written(folder / "teams.ndjson", UPDATES),)
    elif kind == "file with an option":
        arguments = (written(folder / "changes.ndjson", UPDATES), "--resource", "teams")
    else:
        arguments = (written(folder / "changes.ndjson", [line | {"resource": "teams"} for line in UPDATES]),)
    code, out, err = await run(bench, "update", *arguments, "--json")
    assert (code, err) == (0, "")
    *progress, summary = lines(out)
    assert {event["event"] for event in progress} == {"progress"}
    assert (summary["event"], summary["exit_code"]) == ("summary", 0)
    report = summary["resources"]["teams"]
    assert (report["stage"], report["read"], report["indexed"], report["dead"]) == ("updated", 3, 3, 0)
    assert await bench.names() == APPLIED
    assert await bench.live(TEAM) == "teams-v0001"


async def test_lines_through_standard_input_are_served_as_they_come(bench: Bench) -> None:
    await start(bench)
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "from brokerage.index import index; index()",
            "update",
            "-",
            "--resource",
            "teams",
            "--json",
        ),
        env=os.environ | environment(bench),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    for number, sent in enumerate(UPDATES, 2):
        process.stdin.write(orjson.dumps(sent, option=orjson.OPT_APPEND_NEWLINE))
        await process.stdin.drain()
        await _published(bench, number)
    out, err = await process.communicate(b"{}\n")
    assert process.returncode == 1
    assert await bench.names() == APPLIED
    report = lines(out.decode())[-1]["resources"]["teams"]
    assert (report["read"], report["indexed"], report["dead"]) == (4, 3, 1)
    assert err.decode().splitlines() == [
        f"1 of 4 teams are invalid and were not loaded: see {report['dead_letters']}.",
        "  standard input:4: updated_at: is missing",
        "  standard input:4: record: is missing",
    ]
    assert [(letter["file"], letter["line"]) for letter in bench.letters()] == [("standard input", 4)]


async def _published(bench: Bench, sequence: int) -> None:
    async with asyncio.timeout(120):
        while True:
            if (await bench.mark(TEAM)).sequence >= sequence:
                return
            await asyncio.sleep(0.05)


async def test_an_update_from_a_source_without_lines_says_so(bench: Bench, tmp_path: Path) -> None:
    code, out, err = await run(bench, "update", tmp_path)
    assert (code, out + err) == (0, "No lines to apply.\n")


async def test_bad_lines_of_an_update_end_with_1_and_the_good_ones_are_served(bench: Bench) -> None:
    await start(bench)
    foreign = envelope(TEAM, {"uuid": "x"}, platform_company_id="unknown")
    path = written(
        bench.folder.parent / "changes.ndjson", [line | {"resource": "teams"} for line in [*UPDATES, foreign]]
    )
    path.write_bytes(path.read_bytes() + b'{"resource":"tems"}\n')
    code, out, err = await run(bench, "update", path, "--json")
    resources = lines(out)[-1]["resources"]
    assert code == 1
    *complaints, standing = err.splitlines()
    assert standing.startswith("1 record is not served as its source says, since ")
    assert complaints == [
        f"1 of 4 teams are invalid and were not loaded: see {resources['teams']['dead_letters']}.",
        "  changes.ndjson:4: platform_company_id: 'unknown' is not a company in the source or the live index",
        f"1 of 1 unnamed are invalid and were not loaded: see {resources['unnamed']['dead_letters']}.",
        f"  changes.ndjson:5: resource: is 'tems': use one of {', '.join(resource.alias for resource in RESOURCES)}",
    ]
    assert await bench.names() == APPLIED


async def test_an_update_of_what_was_never_built_ends_with_1_and_says_what_to_do(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)]})
    folder = write(bench.folder.parent / "changes", {TEAM: UPDATES})
    code, _, err = await run(bench, "update", folder)
    alias = bench.connection.alias(TEAM)
    assert (code, err) == (1, f"{alias} was never built: load it once with `brokerage index reindex`.\n")


async def test_an_alias_that_was_lost_is_not_taken_for_what_was_never_built(bench: Bench) -> None:
    await start(bench)
    alias, live = bench.connection.alias(TEAM), await bench.live(TEAM)
    await bench.client.indices.delete_alias(index=f"{alias}-*", name=alias)
    _, out, _ = await run(bench, "status")
    rows = {words[0]: " ".join(words[1:4]) for line in out.splitlines()[:7] if (words := line.split())}
    assert (rows["teams"], rows["agents"]) == (f"missing {live.removeprefix('teams-')}", "never loaded")
    assert f"teams: the alias {alias} is missing, so requests get 503." in out
    folder = write(bench.folder.parent / "changes", {TEAM: UPDATES})
    code, _, err = await run(bench, "update", folder)
    assert (code, f"The alias {alias} is missing, which pointed to {alias}-v0001" in err) == (1, True)
    await bench.client.indices.put_alias(index=f"{alias}-v0001", name=alias)
    assert (await run(bench, "update", folder))[0] == 0
    assert await bench.names() == APPLIED


@pytest.mark.parametrize("verb", ["reindex", "update"])
async def test_a_dry_run_reports_each_fault_and_writes_nothing(bench: Bench, verb: str) -> None:
    await start(bench)
    before = await bench.client.indices.stats(index=f"{bench.connection.prefix}*", metric="indexing")
    bad: list[dict[str, Any] | bytes] = [
        envelope(TEAM, {"name": 7}),
        envelope(TEAM, platform_company_id="unknown"),
        b"{",
    ]
    sent: list[dict[str, Any] | bytes] = [*UPDATES, *bad]
    folder = write(bench.folder.parent / "changes", {TEAM: sent})
    code, out, err = await run(bench, verb, folder, "--dry-run", "--json")
    assert code == 1
    assert err.splitlines() == [
        "teams.ndjson:4: record.name: expected `str | null`, got `int`",
        "teams.ndjson:5: platform_company_id: 'unknown' is not a company in the source or the live index",
        "teams.ndjson:6: is not a JSON object in UTF-8: Input data was truncated",
    ]
    report = lines(out)[-1]["resources"]["teams"]
    assert (report["stage"], report["read"], report["dead"], report["dead_letters"]) == ("checked", 6, 3, None)
    after = await bench.client.indices.stats(index=f"{bench.connection.prefix}*", metric="indexing")
    assert set(after["indices"]) == set(before["indices"])
    assert after["_all"]["total"]["indexing"]["index_total"] == before["_all"]["total"]["indexing"]["index_total"]
    assert bench.letters() == []


async def test_a_dry_run_of_a_sound_source_needs_no_cluster_where_it_has_companies(bench: Bench) -> None:
    folder = write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: UPDATES})
    for verb in ("reindex", "update"):
        code, out, err = await run(bench, verb, folder, "--dry-run", "--json", ELASTICSEARCH_URL="http://127.0.0.1:9")
        assert (code, err) == (0, "")
        assert {name: report["read"] for name, report in lines(out)[-1]["resources"].items()} == {
            "companies": 1,
            "teams": 3,
        }


async def test_a_dry_run_shows_each_kind_of_fault_once_with_its_count(bench: Bench) -> None:
    wrong = [envelope(TEAM, {"uuid": f"w{number}", "name": number}) for number in range(5)]
    folder = write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: [*wrong, *[b"{}"] * 50]})
    code, out, err = await run(bench, "reindex", folder, "--dry-run")
    assert code == 1
    assert err.splitlines() == [
        "50 like teams.ndjson:6: updated_at: is missing",
        "50 like teams.ndjson:6: record: is missing",
        "5 like teams.ndjson:1: record.name: expected `str | null`, got `int`",
    ]
    assert out.splitlines() == ["companies: checked; 1 read", "teams: checked; 55 read, 55 invalid"]


async def test_outside_a_terminal_a_load_prints_one_line_for_each_resource(bench: Bench) -> None:
    fractions = [envelope(LISTING, {"PlatformListingId": f"L{number}", "LotSizeAcres": 0.25}) for number in range(3)]
    folder = write(bench.folder, {COMPANY: [envelope(COMPANY)], LISTING: fractions})
    code, out, err = await run(bench, "reindex", folder)
    prefix = bench.connection.prefix
    assert (code, err) == (0, "")
    rounded = "3 numbers rounded (3 LotSizeAcres, such as 0.25 to 0)"
    # A run that takes long prints lines of progress too.
    assert [line for line in out.splitlines() if not re.search(r"read \([a-z ]+\)$", line)] == [
        f"companies: 1 live in {prefix}companies-v0001; 1 read, 1 indexed",
        f"listings: 3 live in {prefix}listings-v0001; 3 read, 3 indexed, {rounded}",
        "Not in the source: offices, agents, teams, sold_listings.",
    ]


async def test_an_update_says_what_is_not_served_and_ends_with_1(bench: Bench) -> None:
    await start(bench)
    path = written(bench.folder.parent / "teams.ndjson", [envelope(TEAM, updated_at="2020-01-01T00:00:00Z")])
    code, out, err = await run(bench, "update", path)
    assert (code, out) == (1, "teams: 1 read, 1 older than another state\n")
    assert err.splitlines() == [
        "1 record of teams is not served: older than the live record.",
        "  team-1 in teams.ndjson:1 (2020-01-01T00:00:00Z, served 2026-01-02T03:04:05.678Z)",
    ]
    code, out, err = await run(bench, "update", written(path, [envelope(TEAM)]))
    assert (code, out, err) == (0, "teams: 1 read, 1 unchanged\n", "")


async def test_the_covered_companies_are_options_of_the_command_and_in_its_output(bench: Bench) -> None:
    await start(bench)
    folder = write(bench.folder.parent / "own", {TEAM: [envelope(TEAM)]})
    code, out, err = await run(bench, "reindex", folder, "teams", "--company", "acme", "--force", "--json")
    report = lines(out)[-1]["resources"]["teams"]
    assert (code, report["covers"], report["others"]) == (0, "acme", 0), err
    code, _, err = await run(bench, "reindex", folder, "teams", "--company", "absent")
    assert code == 2
    assert err.startswith(
        "--company: absent is not a company in the source or the live index: correct it. If absent is"
    )
    assert 'in a column map as [company] with platform_company_id = "absent" and name = "…"' in err
    code, _, err = await run(bench, "reindex", folder, "--company", "acme", "--all-companies")
    assert (code, "Give --company or --all-companies, not both." in err) == (2, True)
