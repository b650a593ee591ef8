"""A rebuild replaces the records of the companies that its source covers, and leaves those of all others alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import COMPANY
from tests.indexer.build.two_companies import Loader, of, stored, teams

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench


async def test_a_rebuild_of_one_brokerage_leaves_the_records_of_another_alone(bench: Bench) -> None:
    north, south = Loader(bench, "north"), Loader(bench, "south")
    assert (await north.load(teams("north", 300))).exit_code == 0
    before = await stored(bench.engine())
    summary = await south.load(teams("south", 300))
    found = await stored(bench.engine())
    assert summary.exit_code == 0
    assert len(of(found, "south")) == 300
    assert of(found, "north") == before
    assert summary.report_for("teams").vanished == 0
    assert set(await stored(bench.engine(), COMPANY)) == {"north", "south"}
