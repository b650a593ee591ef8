"""A rebuild that publishes what it has made live, if a setting says so."""

from pathlib import Path

import orjson
import pytest
from elasticsearch import AsyncElasticsearch

from mappings import COMPANY, TEAM
from tests.brokerage.conftest import run
from tests.conftest import remove_indices
from tests.records import envelope, write


@pytest.fixture
async def environment(
    client: AsyncElasticsearch, prefix: str, on_engine: dict[str, str], tmp_path: Path
) -> dict[str, str]:
    """An empty cluster, and a folder for files."""
    await remove_indices(client, prefix)
    return {**on_engine, "BROKERAGE_PUBLISH_AFTER_SWAP": "true", "BROKERAGE_EXPORTS": str(tmp_path / "exports")}


def source(folder: Path, teams: int) -> Path:
    return write(
        folder, {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, {"uuid": f"t{at}"}) for at in range(teams)]}
    )


def test_a_swap_is_followed_by_a_publication(environment: dict[str, str], tmp_path: Path) -> None:
    """A refused one is not, and leaves the files as they were; the exit code is that of the rebuild."""
    printed = run("index", "reindex", str(source(tmp_path / "a", 30)), "--json", environment=environment)
    assert printed.returncode == 0, printed.stderr
    last = orjson.loads(printed.stdout.splitlines()[-1])
    assert (last["event"], last["publications"], last["records"]) == ("summary", 2, 31)
    manifest = tmp_path / "exports" / "acme" / "teams" / "manifest.json"
    before = manifest.read_bytes()
    assert orjson.loads(before)["records"] == 30
    refused = run("index", "reindex", str(source(tmp_path / "b", 1)), "--json", environment=environment)
    assert refused.returncode == 1
    assert manifest.read_bytes() == before
    without = environment | {"BROKERAGE_PUBLISH_AFTER_SWAP": "false"}
    assert run("index", "reindex", str(source(tmp_path / "c", 29)), environment=without).returncode == 0
    assert manifest.read_bytes() == before


def test_without_a_folder_nothing_is_built(environment: dict[str, str], tmp_path: Path) -> None:
    printed = run(
        "index", "reindex", str(source(tmp_path / "a", 3)), environment=environment | {"BROKERAGE_EXPORTS": ""}
    )
    assert printed.returncode == 2
    assert "BROKERAGE_EXPORTS" in printed.stderr
    assert "swapped" not in printed.stdout


def test_a_failure_to_publish_leaves_the_rebuild_live(environment: dict[str, str], tmp_path: Path) -> None:
    """And has an exit code of its own, with the reason."""
    (tmp_path / "exports").write_text("a file")
    printed = run("index", "reindex", str(source(tmp_path / "a", 3)), environment=environment)
    assert printed.returncode == 1
    assert "exports cannot be used" in printed.stderr
    assert run("index", "verify", str(tmp_path / "a"), environment=environment).returncode == 0
