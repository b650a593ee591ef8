"""The last state of a record that arrives is served, also in an hour that comes twice or that does not exist."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from indexer import RunSummary, open_source, update
from indexer.troubles import Served, troubles
from indexer.verify.verification import verify_against_source
from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.indexer.source.tables.table_folder import IDENTIFIER, write_map

MAP = f"""resource = "listings"
files = ["part-*.csv"]
updated_at = {{column = "at"}}
deleted = {{column = "deleted"}}
date_time_format = ["%m/%d/%Y %I:%M %p", "ISO"]
time_zone = "America/New_York"
[company]
platform_company_id = "acme"
name = "Acme"
{IDENTIFIER}
ListPrice = {{column = "price"}}
Status = "Active"
"""
# What the clock of the source shows, in the order of what happens. Of the hour from 1:00 on, all is shown twice.
REPEATED = [f"11/01/2026 {shown}" for shown in ("12:30 AM", "01:10 AM", "01:45 AM", "01:10 AM", "01:45 AM", "02:00 AM")]
MISSING = ["03/08/2026 01:59 AM", *["03/08/2026 02:10 AM"] * 2, "03/08/2026 02:30 AM", "03/08/2026 03:00 AM"]
PAIRS = [pair for shown in (REPEATED, MISSING) for pair in combinations(shown, 2)]
Row = tuple[str, str, str, str]  # identifier, price, time, whether it is deleted
FIRST, SECOND = "200000", "100000"


def rows(number: int, *, deleted: str = "") -> list[Row]:
    """Return the first or the second row of each pair; of three records each, one is deleted by its first row."""
    price = (FIRST, SECOND)[number]
    return [
        (f"{pair[0]} {pair[1]} {at} {kind}".translate({ord(sign): "-" for sign in "/: "}), price, pair[number], gone)
        for at, pair in enumerate(PAIRS)
        for kind, gone in (("kept", ""), ("deleted", deleted))
    ]


class Source:
    """A folder with tables of rows, and what is served of it."""

    def __init__(self, folder: Path, bench: Bench) -> None:
        folder.mkdir()
        self.folder, self.bench = folder, bench
        self.name = write_map(folder, MAP)

    def declare(self, *, ambiguous: str) -> None:
        """Say in the map which hour is meant."""
        write_map(self.folder, MAP.replace("time_zone", f'ambiguous = "{ambiguous}"\ntime_zone'))

    def write(self, *files: Sequence[Row]) -> None:
        for old in self.folder.glob("part-*.csv"):
            old.unlink()
        for number, lines in enumerate(files):
            text = "".join(",".join(line) + "\n" for line in [("id", "price", "at", "deleted"), *lines])
            (self.folder / f"part-{number}.csv").write_text(text)

    async def rebuild(self, *files: Sequence[Row], **options: Any) -> RunSummary:
        self.write(*files)
        with open_source(self.name) as source:
            return await self.bench.build_source(source, force=True, **options)

    async def update(self, *files: Sequence[Row], **options: Any) -> RunSummary:
        self.write(*files)
        with open_source(self.name) as source:
            return await update(self.bench.engine(**options), source)

    async def prices(self) -> dict[str, str]:
        await self.bench.client.indices.refresh(index=self.bench.connection.alias(LISTING))
        documents = (await self.bench.served(LISTING)).items()
        return {name: str(found["record"]["ListPrice"]) for name, found in documents if not found["deleted"]}

    async def is_verified(self) -> bool:
        with open_source(self.name) as source:
            return all(
                found.is_equal for found in await verify_against_source(self.bench.engine(), source, is_full=True)
            )


@pytest.fixture
def source(tmp_path: Path, bench: Bench) -> Source:
    return Source(tmp_path / "tables", bench)


async def last_price(source: Source, deleted: str = "") -> set[str]:
    """Return the prices that are served, having required that all records of the pairs are."""
    served = await source.prices()
    assert served.keys() == {row[0] for row in rows(0)}, deleted
    return {*served.values()}


@pytest.mark.parametrize("batch", [3, 500])
async def test_the_last_row_of_each_pair_is_served_of_a_table_with_its_journal(source: Source, batch: int) -> None:
    for _ in range(2):
        assert (await source.rebuild(rows(0), rows(1), bulk_documents=batch)).exit_code == 0
        assert await last_price(source) == {SECOND}
        assert await source.is_verified()


@pytest.mark.parametrize("batch", [3, 500])
async def test_the_last_row_of_each_pair_is_served_of_updates(source: Source, batch: int) -> None:
    first, second = rows(0, deleted="true"), rows(1)
    assert (await source.rebuild(rows(0))).exit_code == 0
    # In runs of their own, then with deletions, once more, and all in one run.
    for files in ([second], [first], [second], [first, second]):
        await source.update(*files, bulk_documents=batch)
        assert files == [first] or await last_price(source) == {SECOND}


async def test_a_full_table_outranks_what_arrived_before_it_in_the_repeated_hour(source: Source) -> None:
    at = {"earlier": "11/01/2026 01:45 AM", "later": "11/01/2026 01:10 AM"}
    await source.rebuild([("a", FIRST, at["earlier"], "")])
    await source.rebuild([("a", SECOND, at["later"], "")])
    assert await source.prices() == {"a": SECOND}
    # What is truly older stays so.
    await source.rebuild([("a", FIRST, "11/01/2026 12:59 AM", "")])
    assert await source.prices() == {"a": SECOND}


async def test_a_time_with_an_offset_after_an_ambiguous_one_is_later(source: Source) -> None:
    await source.rebuild([("a", FIRST, "11/01/2026 01:45 AM", "")])
    await source.update([("a", SECOND, "2026-11-01T01:45:01-04:00", "")])
    assert await source.prices() == {"a": SECOND}


@pytest.mark.parametrize(("ambiguous", "price"), [("earlier", FIRST), ("later", FIRST)])
async def test_the_report_says_why_a_line_counts_as_older(source: Source, ambiguous: str, price: str) -> None:
    source.declare(ambiguous=ambiguous)
    await source.rebuild([("a", FIRST, "11/01/2026 01:45 AM", "")])
    summary = await source.update([("a", SECOND, "11/01/2026 01:10 AM", "")])
    assert await source.prices() == {"a": price}
    ((kind,), (note,)) = summary.report_for("listings").unserved, summary.notes
    assert kind.reason.startswith("older than the live record, if a time in the hour that comes twice is read as")
    assert note.startswith("map.toml: 1 time of column at is in an hour that comes twice in America/New_York")


async def test_a_withdrawn_listing_stays_so_when_its_journal_is_sent_again(source: Source) -> None:
    journal = [("a", FIRST, "11/01/2026 01:10 AM", ""), ("a", SECOND, "11/01/2026 01:45 AM", "")]
    await source.rebuild(journal)
    await source.update([("a", "not a price", "11/01/2026 01:50 AM", "")], trouble_hours=0.0)
    (withdrawn,) = await troubles(source.bench.engine())
    assert withdrawn.served is Served.OFF_MARKET
    for row in journal:
        await source.update([row])
    assert await troubles(source.bench.engine()) == [withdrawn]
    # A full table, also with an earlier time, is authoritative.
    await source.rebuild([journal[0]])
    assert (await troubles(source.bench.engine()), await source.prices()) == ([], {"a": FIRST})
