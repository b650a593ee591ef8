"""Several processes load what one loads: the same documents, stamps, counts and dead letters."""

import gzip
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from indexer import ElasticsearchError, IndexerError
from mappings import COMPANY, TEAM
from tests.indexer.changing_sources import bad_numbers, first, live_changes, second, source
from tests.indexer.conftest import Bench
from tests.indexer.faults.end_state import contents, counts, second_bench, stamped_since, stored_teams
from tests.internals import Internals
from tests.network.bulk_proxy import BulkProxy, refused
from tests.records import envelope

LINES = 1_200
TUNED: dict[str, Any] = {"bulk_documents": 20, "shrink_limit": 0.5}


async def two_builds(bench: Bench, processes: int) -> list[dict[str, Any]]:
    """Build a source, apply updates, and build the next one; return the reports of the two builds."""
    reports = []
    for lines in (first(LINES), second(LINES)):
        source(bench, lines)
        summary = await bench.build_folder([COMPANY, TEAM], processes=processes, **TUNED)
        reports.append(vars(summary.report_for("teams")))
        if len(reports) == 1:
            await bench.update({TEAM: live_changes(LINES)})
    return reports


async def test_several_processes_build_what_one_builds(bench: Bench) -> None:
    alone = second_bench(bench, "alone-")
    expected, reports = await two_builds(alone, 1), await two_builds(bench, 2)
    stored, found, mark = await stored_teams(alone), await stored_teams(bench), await alone.mark(TEAM)
    assert [counts(report) for report in reports] == [counts(report) for report in expected]
    assert [report["warnings"] for report in reports] == [report["warnings"] for report in expected]
    assert contents(found) == contents(stored)
    assert [one.sequence for one in found.values()] == [one.sequence for one in stored.values()]
    assert stamped_since(found, mark) == stamped_since(stored, mark)
    numbers = [letter["line"] for letter in bench.letters() if letter["file"] == "teams.ndjson"]
    assert numbers == [*bad_numbers(first(LINES)), *bad_numbers(second(LINES))]


async def test_several_processes_load_lines_that_one_has_to_read(bench: Bench) -> None:
    lines = first(LINES)
    path = source(bench, lines) / "teams.ndjson"
    path.with_name("teams.ndjson.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    report = (await bench.build_folder([COMPANY, TEAM], processes=2, **TUNED)).report_for("teams")
    assert (report.read, report.refusal) == (len(lines), None)
    assert len(await stored_teams(bench)) == LINES
    assert [letter["line"] for letter in bench.letters()] == bad_numbers(lines)


async def test_what_a_loader_raises_ends_the_build(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [refused(404)] * 9
    async with proxy.running() as address:
        behind = replace(bench, connection=replace(bench.connection, url=(address,)))
        with pytest.raises(ElasticsearchError, match="made up"):
            await behind.build({TEAM: [envelope(TEAM)]}, processes=2)
    assert (await bench.build({TEAM: [envelope(TEAM)]}, processes=2)).exit_code == 0


async def test_a_range_that_ends_every_process_ends_the_build(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, internals: Internals
) -> None:
    internals(loader_command=(sys.executable, "-c", "import os; os._exit(3)"))
    with pytest.raises(IndexerError, match=r"5 processes ended .* companies up to line 1, .* exit code 3"):
        await bench.build({COMPANY: [envelope(COMPANY)]}, processes=2)
    monkeypatch.undo()
    assert (await bench.build({COMPANY: [envelope(COMPANY)]}, processes=2)).exit_code == 0


def test_a_command_that_loads_imports_neither_the_service_nor_what_several_processes_need() -> None:
    """But the names of all settings, by which misspelled ones are refused."""
    program = "import sys, brokerage.index.load; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()  # noqa: S603 - its own program
    assert "indexer.load.processes" not in loaded
    settings = {"service", "service.settings", "service.keys", "service.keys.revocation_list"}
    assert {name for name in loaded if name.partition(".")[0] == "service"} == settings
    assert not {"marshmallow", "prometheus_client"}.intersection(loaded)
