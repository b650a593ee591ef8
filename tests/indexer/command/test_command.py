"""`brokerage index` as an operator meets it: exit codes, one sentence on standard error, JSON lines."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from brokerage.index import index
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import hold, lock_holder
from tests.records import envelope, write

Outcome = tuple[int, str, str]


def environment(bench: Bench, **changes: str) -> dict[str, str]:
    """Return the settings that select the installation of a test."""
    return {
        "ELASTICSEARCH_URL": bench.connection.url[0],
        "BROKERAGE_INDEX_PREFIX": bench.connection.prefix,
        "BROKERAGE_DEAD_LETTER_DIR": bench.settings.dead_letter_folder,
        "BROKERAGE_MERGE_AFTER_BUILD": "false",
        "BROKERAGE_LOCK_WAIT_SECONDS": "0",
        **changes,
    }


async def run(bench: Bench, *arguments: str | Path, **changes: str) -> Outcome:
    """Run the command as a process; return exit code, standard output and standard error."""
    given = environment(bench, **changes)
    done = await asyncio.to_thread(CliRunner().invoke, index, [str(part) for part in arguments], env=given)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout, done.stderr


def lines(out: str) -> list[dict[str, Any]]:
    """Return the JSON lines of an output."""
    return [orjson.loads(line) for line in out.splitlines()]


async def test_reindex_status_rollback_and_prune_work_together(bench: Bench) -> None:
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)]})
    for number in (1, 2):
        code, out, err = await run(bench, "reindex", source, "--json")
        assert (code, err) == (0, "")
        *progress, summary = lines(out)
        stages = [event["stage"] for event in progress if event["resource"] == "companies"]
        assert list(dict.fromkeys(stages)) == ["reading", "comparing", "built", "finishing", "swapping", "swapped"]
        assert (summary["event"], summary["exit_code"]) == ("summary", 0)
        report = summary["resources"]["companies"]
        assert (report["read"], report["indexed"], report["unchanged"]) == (1, 2 - number, number - 1)
        assert summary["resources"]["companies"]["generation"].endswith(f"companies-v000{number}")
        assert list(summary["resources"]) == ["companies"]
    code, out, err = await run(bench, "rollback", "companies", "--yes", "--json")
    assert (code, orjson.loads(out)["live"]) == (0, f"{bench.connection.prefix}companies-v0001")
    code, out, err = await run(bench, "status", "--json")
    assert orjson.loads(out)[0]["others"] == [f"{bench.connection.prefix}companies-v0002"]
    code, out, err = await run(bench, "status")
    assert re.search(r"^companies +v0001 +v0002 ", out, flags=re.MULTILINE)
    assert "current" in out
    code, out, err = await run(bench, "prune", "--yes")
    assert (code, out) == (0, f"Deleted: {bench.connection.prefix}companies-v0002, 0 deleted records.\n")
    code, out, err = await run(bench, "rollback", "companies", "--yes")
    assert (code, err) == (1, "companies has no earlier version to roll back to.\n")


async def test_bad_items_end_with_1_and_name_the_dead_letter_file(bench: Bench) -> None:
    teams = [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(10)]
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: [*teams, b"{}"]})
    code, out, err = await run(bench, "reindex", source, "--json")
    letters = lines(out)[-1]["resources"]["teams"]["dead_letters"]
    assert code == 1
    assert err.splitlines() == [
        f"1 of 11 teams are invalid and were not loaded: see {letters}.",
        "  teams.ndjson:11: updated_at: is missing",
        "  teams.ndjson:11: record: is missing",
    ]
    assert len(bench.letters()) == 1


async def test_a_first_load_with_many_bad_lines_is_refused_unless_it_is_confirmed(bench: Bench) -> None:
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM), b"{}"]})
    code, _, err = await run(bench, "reindex", source)
    assert code == 1
    assert err.startswith("1 of 2 teams are bad, in their first load for acme: see ")
    assert "Correct the source, or confirm with --force. Nothing was switched." in err
    assert "  teams.ndjson:2: updated_at: is missing" in err
    code, _, err = await run(bench, "reindex", source, "--force")
    assert code == 1
    assert "Overridden: 1 of 2 teams are bad" in err
    # Of a company that has records, few bad lines always pass.
    assert (await run(bench, "reindex", source))[0] == 1
    assert await bench.live(TEAM) == "teams-v0002"


async def test_a_refused_swap_ends_with_1_and_the_reason(bench: Bench) -> None:
    source = write(bench.folder, {COMPANY: [b"{}"] * 11})
    code, out, err = await run(bench, "reindex", source)
    assert code == 1
    assert err.startswith("11 of 11 companies are bad, more than BROKERAGE_DEAD_LETTER_LIMIT (0.01) allows")
    faults = [f"  11 like companies.ndjson:1: {member}: is missing" for member in ("updated_at", "record")]
    assert err.splitlines()[-2:] == faults
    assert out.splitlines() == [
        "companies: refused; 11 read, 11 invalid",
        "Not begun: offices, agents, teams, listings, sold_listings.",
    ]


@pytest.mark.parametrize(
    ("arguments", "changes", "said"),
    [
        (("reindex", "nowhere"), {}, "does not exist"),
        (("reindex", "."), {}, "The source has nothing for any of: companies"),
        (("reindex", ".", "tems"), {}, "'tems' is not one of 'companies'"),
        (("update", "nowhere"), {}, "does not exist"),
        (("update", ".", "--resource", "tems"), {}, "'tems' is not one of 'companies'"),
        (("rollback", "tems"), {}, "'tems' is not one of 'companies'"),
        (("status",), {"ELASTICSEARCH_URL": ""}, "ELASTICSEARCH_URL is not set"),
        (("status",), {"BROKERAGE_BULK_DOCUMENTS": "many"}, "BROKERAGE_BULK_DOCUMENTS='many' is not valid"),
    ],
    ids=[
        "no folder",
        "no files",
        "resource",
        "no update",
        "update of what",
        "rollback of what",
        "no address",
        "setting",
    ],
)
async def test_wrong_usage_ends_with_2(
    bench: Bench, arguments: tuple[str, ...], changes: dict[str, str], said: str
) -> None:
    code, _, err = await run(bench, *arguments, **changes)
    assert code == 2
    assert said in err.replace("│\n│ ", "")


async def test_an_engine_that_is_away_ends_a_process_with_3_and_one_sentence(bench: Bench) -> None:
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)]})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from brokerage.index import index; index()", "reindex", source),
        env=os.environ | environment(bench, ELASTICSEARCH_URL="http://127.0.0.1:9"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (3, b"")
    assert err.startswith(b"Elasticsearch cannot be reached: 127.0.0.1:9 accepts no connection (")
    assert b"ssl" not in err
    assert err.endswith(b"Check ELASTICSEARCH_URL.\n")
    assert err.count(b"\n") == 1


async def test_a_locked_index_ends_with_4(bench: Bench) -> None:
    await hold(bench, lock_holder())
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)]})
    code, _, err = await run(bench, "reindex", source)
    assert code == 4
    assert err == "Process 1 on elsewhere has held the lock since 1970-01-01T00:00:00+00:00: wait for it to end.\n"


async def test_rollback_asks_and_does_nothing_without_an_answer(bench: Bench) -> None:
    for name in ("old", "new"):
        await bench.build({COMPANY: [envelope(COMPANY, {"name": name})]})
    code, out, err = await run(bench, "rollback", "companies")
    prefix = bench.connection.prefix
    assert (code, out) == (1, "")
    assert f"will be served from {prefix}companies-v0001 instead of {prefix}companies-v0002" in err
    assert await bench.live(COMPANY) == "companies-v0002"
    code, out, err = await run(bench, "rollback", "companies", "--yes")
    assert (code, out, err) == (0, f"companies is now served from {prefix}companies-v0001.\n", "")
