"""Repeated identifiers: a record's history, or two companies that claim the same one."""

import random
from itertools import count
from typing import Any

import orjson
import pytest

from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.source.lines import SourceLine
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope

DAYS = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 10)]


async def test_of_a_records_history_the_newest_is_served_whatever_the_order(bench: Bench) -> None:
    lines = [envelope(TEAM, {"uuid": f"t{n}", "name": day}, updated_at=day) for n in range(4) for day in DAYS]
    lines.append(deletion(TEAM, "t0", updated_at="2026-02-01T00:00:00Z"))
    random.Random(7).shuffle(lines)  # noqa: S311 - a fixed order
    summary = await bench.build({TEAM: lines}, bulk_documents=5)
    served = await bench.served(TEAM)
    report = summary.report_for("teams")
    assert served["t0"]["deleted"] is True
    assert {served[f"t{n}"]["record"]["name"] for n in (1, 2, 3)} == {DAYS[-1]}
    assert (report.read, report.indexed, report.merged, report.dead) == (37, 4, 33, 0)
    assert report.tombstones == 1
    assert summary.exit_code == 0


async def test_an_envelope_that_comes_twice_is_one_record(bench: Bench) -> None:
    summary = await bench.build({TEAM: [envelope(TEAM)] * 3})
    assert (summary.report_for("teams").indexed, summary.report_for("teams").merged) == (1, 2)


async def test_an_identifier_of_two_companies_is_refused_to_the_older_one(bench: Bench) -> None:
    other = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "7"})
    teams: list[dict[str, Any] | bytes] = [
        envelope(TEAM, {"name": "foreign, first"}, platform_company_id="other", updated_at=DAYS[3]),
        envelope(TEAM, {"name": "old"}, updated_at=DAYS[1]),
        envelope(TEAM, {"name": "newest"}, updated_at=DAYS[5]),
        b"{",
        envelope(TEAM, {"uuid": "apart"}),
        envelope(TEAM, {"name": "foreign, last"}, platform_company_id="7", updated_at=DAYS[2]),
    ]
    summary = await bench.build({COMPANY: [envelope(COMPANY), other], TEAM: teams})
    served = await bench.served(TEAM)
    report = summary.report_for("teams")
    assert served["team-1"]["company"] == "acme"
    assert served["team-1"]["record"]["name"] == "newest"
    assert (report.read, report.indexed, report.merged, report.dead) == (6, 2, 1, 3)
    refused = [letter for letter in bench.letters() if letter["field"] == "record.uuid"]
    assert [letter["line"] for letter in refused] == [1, 6]
    assert {letter["reason"] for letter in refused} == {
        "team-1 belongs to the company acme: no two companies may share an identifier"
    }
    assert summary.exit_code == 1


async def test_lines_that_share_an_identifier_are_named(bench: Bench) -> None:
    lines = [envelope(TEAM, {"uuid": f"t{n}", "name": f"n{n}"}, updated_at=DAYS[0]) for n in range(10)]
    for at in (3, 8):
        lines.insert(at, envelope(TEAM, {"uuid": "x", "name": f"distinct {at}"}, updated_at=DAYS[at]))
    lines.append(envelope(TEAM, {"uuid": "x", "name": "distinct"}, updated_at=DAYS[1]))
    summary = await bench.build({TEAM: [*lines, envelope(TEAM, {"uuid": "t5", "name": "other"}, updated_at=DAYS[0])]})
    report = summary.report_for("teams")
    assert (report.read, report.indexed, report.merged, report.stale) == (14, 11, 3, 0)
    assert report.warnings == [
        "3 lines share the identifier x: lines 4, 9, 13; 2 lines share the identifier t5: lines 7, 14; "
        "the newest line of each is kept"
    ]
    assert (await bench.served(TEAM))["x"]["record"]["name"] == "distinct 8"
    assert summary.exit_code == 0


def tied_names() -> list[str]:
    """Return two names with which a team has the same version on the same day."""
    parser, names = LineParser(TEAM, Companies({"acme"})), dict[int, str]()
    for number in count():
        line = orjson.dumps(envelope(TEAM, {"name": f"n{number}"}, updated_at=DAYS[0]))
        version = parser.parse(SourceLine("", 1, line), ParsedChunk()).version
        if version in names:
            return [names[version], f"n{number}"]
        names[version] = f"n{number}"
    raise AssertionError


@pytest.mark.parametrize("processes", [1, 2])
async def test_of_two_contents_with_the_same_version_the_same_one_is_served(bench: Bench, processes: int) -> None:
    lines = [envelope(TEAM, {"name": name}, updated_at=DAYS[0]) for name in tied_names()]
    found = []
    for sent in (lines, lines[::-1], [*lines, *lines]):
        summary = await bench.build({TEAM: sent}, bulk_documents=1, processes=processes)
        assert summary.report_for("teams").refusal is None
        assert summary.report_for("teams").merged == len(sent) - 1
        found.append((await bench.served(TEAM))["team-1"]["record"]["name"])
    assert len(set(found)) == 1
