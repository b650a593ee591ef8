"""Typed tables next to the lines of a publication: served, queried, and complete or absent."""

import asyncio
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import duckdb
import pytest
from click.testing import CliRunner

from brokerage.command import main
from brokerage_feed.parquet_tables import ParquetTables
from brokerage_feed.tables import Spelling
from service.audit.reads import WrittenAudit
from service.publishing.target import PublishError
from service.site.pages import PAGE_BY_PATH
from tests.exports.conftest import Exports
from tests.exports.test_serving import fetched, services
from tests.feed.feed_client import listing
from tests.internals import Internals


def tables(
    resource: str, create: Callable[[str], IO[bytes]], spelling: Spelling = Spelling.UNDERSCORED
) -> ParquetTables:
    """Open Parquet tables, as the command does."""
    return ParquetTables(resource, spelling, create)


async def download(exports: Exports, folder: Path) -> list[dict[str, Any]]:
    """Download all files of the listings of the company a; return the list of files."""
    files: list[dict[str, Any]] = (await exports.feed.json("exports/listings"))["files"]
    for file in files:
        answer = await fetched(exports, file["href"])
        assert (len(answer.body), sha256(answer.body).hexdigest()) == (file["bytes"], file["sha256"])
        kind = "application/zstd" if file["format"] == "ndjson.zst" else "application/vnd.apache.parquet"
        assert answer.headers["Content-Type"] == kind
        (folder / file["href"].partition("?")[0].rpartition("/")[2]).write_bytes(answer.body)
    return files


def prices(exports: Exports) -> Mapping[str, list[int]]:
    """Return the prices of each city, as the lines have them."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in exports.lines(exports.latest("a")):
        found[line["record"]["City"]].append(line["record"]["ListPrice"])
    return found


async def test_the_queries_of_the_guide_run_on_what_is_served(
    exports: Exports, tmp_path: Path, internals: Internals
) -> None:
    """Several files of each table give what the lines give."""
    internals(published_file_bytes=1)
    await exports.feed.update(*(listing(f"M{at}", "a", price=100 + at) for at in range(3)))
    await exports.publish(open_tables=tables)
    folder = tmp_path / "downloads"
    folder.mkdir()
    files = await download(exports, folder)
    assert [file["table"] for file in files[:4]] == ["listings"] * 4
    assert {file["format"] for file in files[:4]} == {"ndjson.zst"}
    own = [file["records"] for file in files if file["format"] == "parquet" and file["table"] == "listings"]
    assert own == [file["records"] for file in files[:4]] == [2, 2, 2, 2]
    queries = re.findall(r"(?ms)^```sql\n(.*?)^```$", PAGE_BY_PATH["/docs/everything"].text)
    parquet, images, lines = [query for text in queries for query in text.split(";") if query.strip()]
    with duckdb.connect(config={"file_search_path": str(folder)}) as database:
        answers = [database.execute(query).fetchall() for query in (parquet, lines)]
        pictures = database.execute(images).fetchall()
    expected = [(city, len(each), sum(each) / len(each)) for city, each in prices(exports).items()]
    assert answers == [expected, expected]
    assert pictures == [("City of a test", 2 * 8)]


async def test_columns_have_the_spelling_that_is_asked_for(exports: Exports) -> None:
    """And the rows of every resource are those of its lines; what records round is there as the source has it."""
    small = listing("L0", "a", 1, price=0)
    small["record"] |= {"LotSizeAcres": 0.23, "Latitude": "47.5"}
    await exports.feed.update(small)
    await exports.publish(open_tables=partial(tables, spelling=Spelling.CONTRACT))
    for resource in ("companies", "offices", "listings"):
        manifest = exports.latest("a", resource)
        (own,) = (file for file in manifest.files if file.format == "parquet" and file.table == resource)
        assert own.records == manifest.records == len(exports.lines(manifest))
    (own,) = (file for file in manifest.files if file.format == "parquet" and file.table == "listings")
    with duckdb.connect() as database:
        table = database.read_parquet(str(exports.root / "a" / "listings" / own.name))
        assert {"ListPrice", "City", "record"} <= {*table.columns}
        assert table.sum("ListPrice").fetchall() == [(sum(range(0, 10, 2)),)]
        exact = table.filter("id = 'L0'").project("LotSizeAcres, LotSizeAcresDecimal, LatitudeDecimal").fetchall()
        assert exact == [(0, 0.23, 47.5)]


async def test_a_table_counts_as_having_all_records_for_the_audit(exports: Exports) -> None:
    """Also that of a list."""
    await exports.publish("a", open_tables=tables)
    files = (await exports.feed.json("exports/listings"))["files"]
    (images,) = (file for file in files if file["table"] == "listing_images")
    audit = services(exports).of(WrittenAudit)
    audit.log.take_rows()
    await fetched(exports, images["href"], Range="bytes=0-3")
    (row,) = audit.log.take_rows()
    assert (row.count, row.first, row.last) == (5, "L0", "L8")


class _Refusing:
    """Tables that hold nothing of a listing."""

    def __init__(self, resource: str, create: Callable[[str], IO[bytes]]) -> None:
        self._resource, self._file = resource, create(resource)

    def add(self, _lines: bytes) -> None:
        if self._resource == "listings":
            raise ValueError("a test")

    def finish(self) -> dict[str, int]:
        self._file.close()
        return {self._resource: 1}

    def close(self) -> None:
        self._file.close()


async def test_what_no_column_can_hold_ends_the_publication(exports: Exports) -> None:
    """With the resource and the company; the last manifest stays, and so it does if rows are missing."""
    await exports.publish("a")
    before = exports.latest("a")
    with pytest.raises(PublishError, match=r"listings cannot be written as parquet: a test"):
        await exports.publish("a", open_tables=_Refusing)
    assert exports.latest("a") == before
    with pytest.raises(PublishError, match=r"listings of a: 0 of 5 were written as parquet"):
        await exports.publish("a", open_tables=_Short)
    assert exports.latest("a") == before
    await exports.publish("a", open_tables=tables)
    kept = {name[:31] for name in exports.names("a") if name[0] == "2"}
    assert kept == {before.publication, exports.latest("a").publication}


class _Short(_Refusing):
    """Tables that lose all rows of listings."""

    def add(self, _lines: bytes) -> None:
        pass

    def finish(self) -> dict[str, int]:
        self._file.close()
        return {self._resource: 0 if self._resource == "listings" else 1}


async def run(exports: Exports, **changes: str) -> str:
    """Run `brokerage index publish` to its end in a thread; return what it printed."""
    connection = exports.feed.bench.connection
    others: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))
    }
    given = {"ELASTICSEARCH_URL": connection.url[0], "BROKERAGE_INDEX_PREFIX": connection.prefix, **changes}
    arguments = ["index", "publish", str(exports.root), "--company", "a", "--json"]
    ended = await asyncio.to_thread(CliRunner().invoke, main, arguments, env={**others, **given})
    assert ended.exit_code == 0, ended.output
    return ended.output


async def test_the_command_writes_what_its_setting_says(exports: Exports) -> None:
    """By default Parquet with underscored names."""
    for changes, expected in (
        ({}, {"list_price"}),
        ({"BROKERAGE_EXPORTS_PARQUET": "contract"}, {"ListPrice"}),
        ({"BROKERAGE_EXPORTS_PARQUET": "none"}, set[str]()),
    ):
        assert "pyarrow" not in await run(exports, **changes)
        (*_, own) = [file for file in exports.latest("a").files if file.table == "listings"]
        with duckdb.connect() as database:
            path = str(exports.root / "a" / "listings" / own.name)
            columns = {*database.read_parquet(path).columns} if own.format == "parquet" else set[str]()
        assert columns & {"list_price", "ListPrice"} == expected


async def test_without_the_library_there_are_lines_only_and_it_is_said(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    printed = await run(exports)
    assert printed.count("pip install pyarrow") == 1
    assert {file.format for file in exports.latest("a").files} == {"ndjson.zst"}
