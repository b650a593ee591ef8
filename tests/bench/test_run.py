"""The smallest run, from nothing to the page, on a real node: every arm is there, every stage has its numbers."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from bench.copies import WAYS
from bench.questions import GROUPS, RAW, SERVICE, Arm
from bench.results import Results, read
from cluster.connection import ConnectionSettings, connect

_PATIENCE_SECONDS = 600
PREFIX = f"t{secrets.token_hex(4)}-"


@pytest.fixture(scope="module")
def docs(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of documents that a run wrote."""
    folder = tmp_path_factory.mktemp("docs")
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "bench", "--smallest", "--prefix", PREFIX, "--docs", str(folder)],
        env={**os.environ, "ELASTICSEARCH_URL": engine_url},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def found(docs: Path) -> Results:
    """What the run measured."""
    return read(docs / "performance" / "results.json")


@pytest.mark.parametrize("group", GROUPS)
def test_every_arm_is_measured(found: Results, group: str) -> None:
    assert found.groups[group].keys() == {arm.name for arm in GROUPS[group]}
    assert found.absent == {}


def test_every_arm_has_its_rounds_and_answers_of_some_size(found: Results) -> None:
    for group in found.groups.values():
        for name, measured in group.items():
            assert (len(measured.rounds), measured.bytes > 0) == (1, True), name
            assert 0 < measured.latency_ms.low <= measured.latency_ms.median <= measured.p99_ms, name


def test_an_answer_of_the_service_is_smaller_than_the_one_it_is_cut_from(found: Results) -> None:
    for question in ("page", "large page"):
        ours, raw = (found.find("latency", Arm(answers, question)) for answers in (SERVICE, RAW))
        assert ours is not None
        assert raw is not None
        assert 0.5 * raw.bytes < ours.bytes < raw.bytes


def test_all_companies_are_walked(found: Results) -> None:
    [walk] = found.walks
    companies, size = found.environment.companies, found.environment.large_page
    assert sum(companies.values()) == found.environment.listings == 400
    assert walk.seconds.keys() == companies.keys()
    assert walk.pages == sum(-(-count // size) for count in companies.values())
    assert walk.cpu_seconds.keys() == {SERVICE}


def test_a_company_is_copied_in_each_way(found: Results) -> None:
    assert found.copies is not None
    assert found.copies.ways.keys() == WAYS.keys()
    sizes = {way: taken[0].bytes for way, taken in found.copies.ways.items()}
    assert 0 < sizes["published file, zstd"] < sizes["pages"] < sizes["snapshot"]
    assert sizes["snapshot, zstd"] < sizes["snapshot"]
    assert 0 < found.copies.memory_at_rest <= found.copies.memory_at_most


def test_each_command_has_its_records(found: Results) -> None:
    assert found.commands is not None
    records = {name: step.records for name, step in found.commands.taken.items()}
    assert records.pop("rebuild of one company") > 0
    every = ("load", "verification", "compaction", "rebuild")
    assert records == {"update of 1 in 20": 19, "update of one": 1} | dict.fromkeys(every, 400)
    assert 0 < found.commands.index_bytes < found.commands.source_bytes


def test_the_page_is_written(docs: Path) -> None:
    text = (docs / "performance.md").read_text(encoding="utf-8")
    assert "| pages per second, 8 clients: service / same body | ≥ 0.72 |" in text
    for title in ("Walks of all listings", "Copies of a company", "The indexer"):
        assert f"### {title}" in text


@pytest.mark.usefixtures("docs")
async def test_nothing_is_left_on_a_node_that_is_not_ours(engine_url: str) -> None:
    async with connect(ConnectionSettings(url=(engine_url,)), connections=1, timeout=30) as client:
        assert await client.indices.get(index=f"{PREFIX}*", expand_wildcards="all") == {}
