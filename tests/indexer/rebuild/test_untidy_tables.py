"""Tables with footers, titles and unreadable cells, loaded: what is deleted, refused, counted."""

from pathlib import Path
from typing import Any

import pytest

from indexer import RunSummary, SourceError, open_source, update
from indexer.reporting.report import EmptiedField
from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.indexer.source.tables.table_folder import write_map

MAP = """
resource = "listings"
file = "listings.csv"
updated_at = "on change"
footer = "^Total"
on_error = "empty"
skip_if = {id = ""}
[company]
platform_company_id = "acme"
name = "Acme"
[record]
PlatformListingId = {column = "id"}
Status = "Active"
YearBuilt = {column = "year"}
"""


def export(folder: Path, years: list[str], footer: str = "Total: 9 listings") -> str:
    rows = "".join(f"L{number},{year}\n" for number, year in enumerate(years))
    (folder / "listings.csv").write_text(f"Report\n\nid,year\n{rows},1900\n{footer}\n")
    return write_map(folder, MAP)


async def load(bench: Bench, name: str, **options: Any) -> RunSummary:
    with open_source(name) as source:
        return await bench.build_source(source, **options)


async def live(bench: Bench) -> list[str]:
    return sorted(name for name, one in (await bench.served(LISTING)).items() if not one["deleted"])


async def test_a_listing_that_vanished_is_deleted_although_the_export_has_a_footer(
    bench: Bench, tmp_path: Path
) -> None:
    await load(bench, export(tmp_path, ["1900"] * 4))
    report = (await load(bench, export(tmp_path, ["1900"] * 3))).report_for("listings")
    assert (report.refusal, report.dead, report.vanished) == (None, 0, 1)
    assert (report.skipped, report.skip_reasons) == (2, {"id is empty": 1, "footer": 1})
    assert await live(bench) == ["L0", "L1", "L2"]


@pytest.mark.parametrize("processes", [1, 2])
async def test_an_export_that_is_cut_off_deletes_nothing(bench: Bench, tmp_path: Path, processes: int) -> None:
    await load(bench, export(tmp_path, ["1900"] * 4), processes=processes)
    with pytest.raises(SourceError, match=r"listings\.csv does not end with the `footer`"):
        await load(bench, export(tmp_path, ["1900"] * 3, footer="L4,1900"), processes=processes, force=True)
    assert await live(bench) == ["L0", "L1", "L2", "L3"]


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_column_that_is_unreadable_in_more_than_a_tenth_of_the_lines_is_refused(
    bench: Bench, tmp_path: Path, processes: int
) -> None:
    few = await load(bench, export(tmp_path, ["c.1900"] * 11 + ["1900"] * 99), processes=processes)
    report = few.report_for("listings")
    examples = [f"listings.csv:{line}: column year: 'c.1900' is not a number" for line in (4, 5, 6)]
    assert (few.exit_code, report.emptied) == (0, [EmptiedField("record.YearBuilt", 11, examples)])
    many = await load(bench, export(tmp_path, ["c.1900"] * 12 + ["1900"] * 98), processes=processes)
    refusal = many.report_for("listings").refusal or ""
    assert refusal.startswith("record.YearBuilt cannot be read in 12 of 110 listings, more than a tenth, such as ")
    assert refusal.endswith("Nothing was switched.")
    forced = await load(bench, export(tmp_path, ["c.1900"] * 12 + ["1900"] * 98), processes=processes, force=True)
    assert [text.partition(",")[0] for text in forced.report_for("listings").overridden] == [
        "record.YearBuilt cannot be read in 12 of 110 listings"
    ]
    years = [one["record"]["YearBuilt"] for one in (await bench.served(LISTING)).values()]
    assert years.count(None) == 12


async def test_an_update_counts_what_it_leaves_empty(bench: Bench, tmp_path: Path) -> None:
    await load(bench, export(tmp_path, ["1900"] * 3))
    with open_source(export(tmp_path, ["1900", "c.1900", "1901"])) as source:
        report = (await update(bench.engine(), source)).report_for("listings")
    assert (report.dead, [(one.field, one.count) for one in report.emptied]) == (0, [("record.YearBuilt", 1)])
