"""`updated_at = "on change"`: the content decides which records of a source without times have changed."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer import RunSummary, open_source, update
from indexer.verify.verification import verify_against_source
from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.indexer.source.tables.table_folder import IDENTIFIER, write_map

MAP = f"""resource = "listings"
files = ["part-*.csv"]
updated_at = "on change"
[company]
platform_company_id = "snapshots"
name = "Snapshots"
{IDENTIFIER}
ListPrice = {{column = "price"}}
DaysOnMarket = {{column = "days"}}
Status = "Active"
"""


class Snapshots:
    """A folder of tables without times, and what is served of it."""

    def __init__(self, folder: Path, bench: Bench) -> None:
        self._folder = folder
        self._bench = bench
        self.source = write_map(folder, MAP)

    def write(self, **rows: str) -> None:
        """Write one file per row, as `price,days`."""
        for file in self._folder.glob("part-*.csv"):
            file.unlink()
        for name, row in rows.items():
            (self._folder / f"part-{name}.csv").write_text(f"id,price,days\n{name},{row}\n")

    async def rebuild(self) -> RunSummary:
        with open_source(self.source) as source:
            return await self._bench.build_source(source)

    async def update(self) -> RunSummary:
        """Apply the source as updates."""
        with open_source(self.source) as source:
            return await update(self._bench.engine(), source)

    async def served(self) -> dict[str, tuple[Any, ...]]:
        """Return price, days, time and stamp of each live record."""
        documents = (await self._bench.served(LISTING)).values()
        return {
            one["id"]: (one["record"]["ListPrice"], one["record"]["DaysOnMarket"], one["version"] // 1024, one["clock"])
            for one in documents
            if not one["deleted"]
        }

    async def is_verified(self) -> bool:
        """Whether a full verification finds no difference."""
        with open_source(self.source) as source:
            results = await verify_against_source(self._bench.engine(), source, is_full=True)
        return all(result.is_equal for result in results)


@pytest.fixture
def snapshots(tmp_path: Path, bench: Bench) -> Snapshots:
    (tmp_path / "snapshots").mkdir()
    return Snapshots(tmp_path / "snapshots", bench)


@pytest.mark.parametrize("way", ["rebuild", "update"])
async def test_an_unchanged_record_keeps_its_time_and_a_changed_one_gets_that_of_the_run(
    snapshots: Snapshots, way: str
) -> None:
    snapshots.write(a="1,5", b="2,5", c="3,5")
    assert (await snapshots.rebuild()).exit_code == 0
    before = await snapshots.served()
    assert await snapshots.is_verified()

    snapshots.write(a="1,5", b="20,5", c="3,6", d="4,5")
    assert not await snapshots.is_verified()
    summary = await getattr(snapshots, way)()
    assert summary.exit_code == 0
    after = await snapshots.served()
    assert after["a"] == before["a"]
    assert after["b"][:2] == (20, 5)
    assert after["b"][2] > before["b"][2]
    assert after["b"][3] > before["b"][3]
    # The days on the market are not content: they are served, under the stamp that the record has.
    assert (after["c"][1], after["c"][3]) == (6, before["c"][3])
    assert after["c"][2] - before["c"][2] <= 1
    assert after["d"][:2] == (4, 5)
    assert await snapshots.is_verified()

    await getattr(snapshots, way)()
    assert await snapshots.served() == after


async def test_a_record_that_left_the_source_and_came_back_is_served(snapshots: Snapshots) -> None:
    snapshots.write(a="1,5", b="2,5")
    await snapshots.rebuild()
    snapshots.write(a="1,5")
    assert not await snapshots.is_verified()
    await snapshots.rebuild()
    assert {*await snapshots.served()} == {"a"}
    snapshots.write(a="1,5", b="2,5")
    await snapshots.update()
    assert {*await snapshots.served()} == {"a", "b"}
    assert await snapshots.is_verified()


async def test_a_record_with_several_lines_is_served_once(snapshots: Snapshots) -> None:
    snapshots.write(a="1,5", b="2,5\nb,2,5\na,1,5")
    assert (await snapshots.rebuild()).exit_code == 0
    before = await snapshots.served()
    summary = await snapshots.rebuild()
    assert summary.exit_code == 0
    assert await snapshots.served() == before
    assert orjson.dumps(summary.report_for("listings").merged) == b"2"
