"""Parquet holds what the records hold, in the types of the contract."""

import json
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from brokerage_feed.parquet_tables import ParquetTables
from brokerage_feed.tables import Spelling, typed_tables
from mappings import RESOURCES, Resource
from tests.consumer.tables.conftest import Line, packed
from tests.consumer.tables.expected_rows import SPELLINGS, in_parquet, list_rows, own_rows
from tests.internals import Internals


def write(folder: Path, resource: str, lines: list[Line], spelling: str = "underscored") -> dict[str, int]:
    """Write the tables of a resource, a few lines at a time."""
    files = ParquetTables(resource, Spelling(spelling), lambda name: (folder / f"{name}.parquet").open("wb"))
    with closing(files) as tables:
        for start in range(0, len(lines), 7):
            tables.add(packed(lines[start : start + 7]))
        return tables.finish()


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(folder / f"{name}.parquet").read().to_pylist()
    return rows


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_value_is_that_of_the_record(
    tmp_path: Path, lines: dict[str, list[Line]], resource: Resource, spelling: str, internals: Internals
) -> None:
    """In tables of several row groups; the record is the last column, byte for byte."""
    internals(parquet_group_bytes=100_000)
    given, name = lines[resource.alias], SPELLINGS[spelling]
    counts = write(tmp_path, resource.alias, given, spelling)
    own, *lists = typed_tables(resource.alias)
    rows = read(tmp_path, own.name)
    sent = [line.partition(b',"record":')[2][:-1].decode() for line in packed(given).splitlines()]
    assert [row.pop("record") for row in rows] == sent
    feed = [{key: row.pop(key) for key in ("id", "company", "sequence", "content")} for row in rows]
    assert feed == [{key: line[key] for key in ("id", "company", "sequence", "content")} for line in given]
    assert {row.pop("time").isoformat() for row in rows} == {"2026-01-02T03:04:05.678000+00:00"}
    for row in rows:
        if "office_id" in row and resource.alias == "offices":
            row["id"] = row.pop("office_id")
    assert rows == own_rows(resource, given, name, in_parquet)
    expected = list_rows(resource, given, name, in_parquet)
    assert {table.member: read(tmp_path, table.name) for table in lists} == expected
    assert counts == {own.name: len(given), **{table.name: len(expected[str(table.member)]) for table in lists}}


def test_duckdb_counts_sums_and_groups_as_the_records_do(tmp_path: Path, lines: dict[str, list[Line]]) -> None:
    """`select city, avg(list_price) from listings group by 1`, with and without a list."""
    write(tmp_path, "listings", lines["listings"])
    prices: dict[str, list[int]] = defaultdict(list)
    images: dict[str, int] = defaultdict(int)
    for record in (line["record"] for line in lines["listings"]):
        prices[record["City"]] += [] if record["ListPrice"] is None else [record["ListPrice"]]
        images[record["City"]] += len(record["ListingImages"])
    with duckdb.connect() as database:
        for name in ("listings", "listing_images"):
            database.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}.parquet'")
        averages = database.execute("SELECT city, avg(list_price) FROM listings GROUP BY 1").fetchall()
        sums = "SELECT city, count(list_price), sum(list_price)::BIGINT FROM listings GROUP BY 1"
        counted = database.execute(sums).fetchall()
        joined = "SELECT city, count(full_url) FROM listings LEFT JOIN listing_images USING (id) GROUP BY 1"
        pictures = database.execute(joined).fetchall()
    assert dict(averages) == {city: pytest.approx(sum(sold) / len(sold)) for city, sold in prices.items()}
    assert sorted(counted) == sorted((city, len(sold), sum(sold)) for city, sold in prices.items())
    assert dict(pictures) == images


def test_a_table_without_rows_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    assert set(write(tmp_path, "listings", []).values()) == {0}
    with duckdb.connect() as database:
        images = database.read_parquet(str(tmp_path / "listing_images.parquet"))
        assert images.sum("width").fetchall() == [(None,)]


def test_a_value_of_another_type_is_refused(tmp_path: Path, lines: dict[str, list[Line]]) -> None:
    """It would be missing otherwise."""
    line = json.loads(packed(lines["listings"][:1]))
    line["record"]["ListPrice"] = "a lot"
    with pytest.raises(ValueError, match="ListPrice"):
        write(tmp_path, "listings", [line])
