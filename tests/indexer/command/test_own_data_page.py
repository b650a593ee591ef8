"""The commands of the tutorials, `docs/your-own-data.md` and those that follow it, run as they are written there."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from indexer import open_source
from indexer.inspection import check_source
from mappings import AGENT, LISTING, SOLD_LISTING
from tests.consumer.service_process import environment, run_service
from tests.indexer.conftest import Bench

_ROOT = Path(__file__).parents[3]
_TUTORIALS = ("your-own-data", "operating/keep-current", "operating/first-partner", "operating/production")
_BLOCKS, _CURRENT, _PARTNER, _PRODUCTION = (
    dict(re.findall(r"(?ms)^```bash ([\w-]+)\n(.*?)^```$", (_ROOT / "docs" / f"{name}.md").read_text()))
    for name in _TUTORIALS
)


async def follow(bench: Bench, *names: str, page: dict[str, str] = _BLOCKS, **variables: str) -> str:
    """Run blocks of a page in one shell, and return what they print on standard output."""
    given = environment(
        ELASTICSEARCH_URL=bench.connection.url[0],
        BROKERAGE_INDEX_PREFIX=bench.connection.prefix,
        BROKERAGE_DEAD_LETTER_DIR=str(bench.folder.parent / "dead-letters"),
        WORK=str(bench.folder.parent / "own data"),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **variables,
    )
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(page[name] for name in names)]
    run = asyncio.to_thread(subprocess.run, command, env=given, capture_output=True, text=True, check=False, cwd=_ROOT)
    result = await run
    assert result.returncode == 0, (names, result.stdout, result.stderr)
    return str(result.stdout)


async def test_the_page_on_your_own_data(bench: Bench, tmp_path: Path) -> None:
    assert "/v1/listings?platform_company_id=larchmont-lane" in await follow(bench, "names", "one")
    kept = bench.folder.parent / "own data" / "larchmont-lane.toml"
    assert 'ListPrice = {column = "List Price"}' in kept.read_text()
    assert {"LL-24001", "S-700"} <= {*await bench.served(LISTING), *await bench.served(SOLD_LISTING)}
    checked = await follow(bench, "names", "check")
    assert "listings: 24 lines, 0 bad" in checked
    await follow(bench, "names", "load")
    listings, agents, sales = [await bench.served(one) for one in (LISTING, AGENT, SOLD_LISTING)]
    assert (len(listings), len(agents), len(sales)) == (24, 5, 12)
    assert {one["record"]["ListAgentUUID"] for one in listings.values()} <= agents.keys()
    first = listings["LL-24001"]["record"]
    assert (first["ListPrice"], first["BathroomsFull"], first["LotSizeAcres"]) == (2_154_000, 2, 1)
    assert first["PublicRemarks"] == 'Sunny, with a 12" beam in the den'

    key = re.findall(r"\S{30,}", await follow(bench, "key"))[-1]
    async with run_service(bench, key, tmp_path / "service.log") as service:
        answer = orjson.loads(await follow(bench, "read", KEY=key, SERVICE=service.url))
        assert {one["PlatformListingId"] for one in _records(answer)} <= listings.keys()
        assert _records(answer)

    await follow(bench, "names", "again")
    after = await bench.served(LISTING)
    changed = {name for name in after if after[name]["clock"] != listings[name]["clock"]}
    assert changed == {name for name, one in listings.items() if "O'Neill" in one["record"]["Address"]}
    agents_after = await bench.served(AGENT)
    assert {name: one["version"] for name, one in agents_after.items()} == {
        name: one["version"] for name, one in agents.items()
    }


async def test_the_tutorials_that_follow(bench: Bench, tmp_path: Path) -> None:
    await follow(bench, "names", "load")
    await follow(bench, *_CURRENT, page=_CURRENT)
    assert (await bench.served(LISTING))["LL-24001"]["record"]["ListPrice"] == 2_100_000
    key = re.findall(r"\S{30,}", await follow(bench, "key", page=_PARTNER))[-1]
    async with run_service(bench, key, tmp_path / "service.log") as service:
        page = orjson.loads(await follow(bench, "page", page=_PARTNER, KEY=key, SERVICE=service.url))
        assert len(_records(page)) == 2
        copied = await follow(bench, "copy", page=_PARTNER, KEY=key, SERVICE=service.url)
        assert "24" in copied
        assert "North portal" in await follow(bench, "look", page=_PARTNER)
        assert "revoked" in (await follow(bench, "end", page=_PARTNER)).lower()
    assert "BROKERAGE_METRICS_PORT" in await follow(bench, "doctor", page=_PRODUCTION)
    await follow(bench, "nightly", page=_PRODUCTION)
    assert list((bench.folder.parent / "own data" / "files").rglob("manifest.json"))


def _records(answer: object) -> list[dict[str, object]]:
    if isinstance(answer, list):
        return answer
    assert isinstance(answer, dict)
    return next(value for value in answer.values() if isinstance(value, list))


@pytest.mark.parametrize("name", ["own-data/own-data.toml", "king_county.toml"])
def test_the_examples_have_no_bad_lines(name: str) -> None:
    with open_source(str(_ROOT / "docs" / "examples" / name)) as source:
        found = check_source(source)
    assert found.bad == 0
    assert all(not reference.dangling for one in found.resources for reference in one.references)
