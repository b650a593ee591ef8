"""`brokerage index verify` as an operator meets it: sentences, JSON, exit codes."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from elasticsearch import AsyncElasticsearch, Elasticsearch

from mappings import COMPANY, TEAM
from tests.brokerage.conftest import invoke, run
from tests.records import deletion, envelope, write

Verify = Callable[..., subprocess.CompletedProcess[str]]

NEW = "2026-02-01T00:00:00Z"
TEAMS = [envelope(TEAM, {"uuid": f"t{number}"}) for number in range(5)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source of one company and five teams."""
    return write(tmp_path / "source", {COMPANY: [envelope(COMPANY)], TEAM: TEAMS})


@pytest.fixture
def verify(client: AsyncElasticsearch, on_engine: dict[str, str], source: Path) -> Verify:  # noqa: ARG001 - removes it
    """The command over what was built of the source."""
    assert invoke("index", "reindex", str(source), environment=on_engine).returncode == 0
    return lambda *arguments: invoke("index", "verify", *map(str, arguments), environment=on_engine)


def test_an_equal_index_is_reported_in_a_line_per_resource(verify: Verify, source: Path, prefix: str) -> None:
    for options in ([], ["--full"]):
        printed = verify(source, *options)
        assert (printed.returncode, printed.stderr) == (0, "")
        first, second = printed.stdout.splitlines()
        assert first.startswith(f"companies: 1 of the source in {prefix}companies-v0001: equal (")
        assert second.startswith(f"teams: 5 of the source in {prefix}teams-v0001: equal (")


def test_what_differs_is_named_with_both_times_and_the_code_is_1(verify: Verify, source: Path) -> None:
    lines: list[Any] = [
        *TEAMS[2:],
        envelope(TEAM, {"uuid": "t1"}, updated_at=NEW),
        envelope(TEAM, {"uuid": "lost"}),
        b"{",
    ]
    write(source, {TEAM: [*lines, deletion(TEAM, "t0", NEW)]})
    printed = verify(source, "teams")
    assert printed.returncode == 1
    assert "1 missing, 1 surplus, 1 different, 1 unreadable (" in printed.stdout
    moment, later = "2026-01-02T03:04:05.678Z", "2026-02-01T00:00:00Z"
    assert printed.stdout.splitlines()[1:4] == [
        f"  missing: lost, the source {moment}, index absent",
        f"  surplus: t0, the source {later}, index {moment}",
        f"  different: t1, the source {later}, index {moment}",
    ]
    assert printed.stdout.splitlines()[4].startswith("  unreadable: teams.ndjson, line 6:")


def test_json_says_all_of_it(verify: Verify, source: Path, prefix: str) -> None:
    write(source, {TEAM: [*TEAMS, envelope(TEAM, {"uuid": "lost"})]})
    printed = verify(source, "teams", "--json")
    said = orjson.loads(printed.stdout)
    assert (printed.returncode, said["exit_code"], list(said["resources"])) == (1, 1, ["teams"])
    teams = said["resources"]["teams"]
    assert teams.pop("seconds") > 0
    assert teams == {
        "reference": "the source",
        "index": f"{prefix}teams-v0001",
        "covers": "acme",
        "equal": False,
        "compared": 6,
        "repeated": 0,
        "unreadable": 0,
        "unreachable": 0,
        "counts": {"missing": 1, "surplus": 0, "different": 0, "altered": 0, "future": 0, "kept": 0, "newer": 0},
        "named": {
            "missing": [{"id": "lost", "expected": "2026-01-02T03:04:05.678Z", "found": None}],
            "surplus": [],
            "different": [],
            "altered": [],
            "future": [],
            "kept": [],
            "newer": [],
        },
        "unreachable_named": [],
        "unreadable_named": [],
    }


def test_a_resource_that_is_not_live_is_reported(
    verify: Verify, source: Path, on_engine: dict[str, str], prefix: str
) -> None:
    with Elasticsearch(on_engine["ELASTICSEARCH_URL"]) as client:
        client.indices.delete(index=f"{prefix}teams-v0001")
    printed = verify(source)
    assert printed.returncode == 1
    assert printed.stdout.splitlines()[1] == "teams: the source has records, but no version is live."


def test_without_a_source_the_earlier_generation_is_compared(
    verify: Verify, source: Path, prefix: str, on_engine: dict[str, str]
) -> None:
    refused = verify()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "There is no earlier version to compare with: specify a SOURCE.\n"
    write(source, {TEAM: TEAMS[1:]})
    assert invoke("index", "reindex", str(source), "teams", environment=on_engine).returncode == 0
    for arguments in ([], ["teams"], ["--against", "teams-v0001"]):
        printed = verify(*arguments)
        assert printed.returncode == 1
        assert printed.stdout.startswith(f"teams: 5 of {prefix}teams-v0001 in {prefix}teams-v0002: 1 missing (")
        assert printed.stdout.splitlines()[1].startswith(f"  missing: t0, {prefix}teams-v0001 2026-")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["SOURCE", "pets"], "pets is not a resource: use one of companies, offices"),
        (["teams", "SOURCE"], "is not a resource"),
        (["SOURCE", "--against", "teams-v0001"], "not both"),
        (["SOURCE", "offices"], "The source has nothing for: offices."),
        (["nowhere"], "The source nowhere does not exist"),
        (["EMPTY"], "The source has nothing for any of: companies, offices"),
    ],
)
def test_wrong_usage_exits_with_code_2(
    on_engine: dict[str, str], source: Path, arguments: list[str], says: str
) -> None:
    (empty := source / "empty").mkdir()
    names = {"SOURCE": str(source), "EMPTY": str(empty)}
    printed = invoke("index", "verify", *(names.get(one, one) for one in arguments), environment=on_engine)
    assert printed.returncode == 2
    assert says in printed.stderr


def test_an_engine_that_is_away_exits_with_code_3(source: Path, unused_tcp_port: int) -> None:
    away = {"ELASTICSEARCH_URL": f"http://127.0.0.1:{unused_tcp_port}", "BROKERAGE_BULK_RETRY_SECONDS": "0"}
    printed = run("index", "verify", str(source), environment=away)
    assert printed.returncode == 3
    assert printed.stderr.startswith("Elasticsearch cannot be reached")
