"""Views of a copy hold what its records hold, in SQLite and in DuckDB."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

import brokerage_feed.sqlite_copy as sqlite_views
from brokerage_feed.messages import SnapshotHeader, SnapshotRecord
from brokerage_feed.sqlite_copy import SqliteCopy, view_statement
from brokerage_feed.tables import Spelling, typed_tables, underscore
from mappings import RESOURCES, Resource
from mappings.fields import View
from mappings.fields import underscore as service_spelling
from tests.consumer.tables.conftest import Line, packed
from tests.consumer.tables.expected_rows import SPELLINGS, in_sqlite, list_rows, own_rows

AVERAGES = "SELECT city, avg(list_price) FROM listings GROUP BY 1"


def fill(folder: Path, lines: dict[str, list[Line]]) -> None:
    """Create a copy of these records."""
    with SqliteCopy(folder, [*lines], "acme") as copy:
        for resource, given in lines.items():
            copy.begin_snapshot(resource, SnapshotHeader(resource, "token", len(given)))
            copy.add_snapshot_records(resource, [_decoder.decode(line) for line in packed(given).splitlines()])
            copy.complete_snapshot(resource)


_decoder = msgspec.json.Decoder(SnapshotRecord)


def query(folder: Path, statement: str) -> list[dict[str, Any]]:
    """Return the rows that a reader of a copy gets; SQLite repeats no column that differs in capitals only."""
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(statement)]


def change(folder: Path, *statements: str) -> None:
    """Change a copy behind the back of the program."""
    with closing(sqlite3.connect(folder / "copy.sqlite3")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, lines: dict[str, list[Line]]) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    fill(folder, lines)
    return folder


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_value_is_that_of_the_record(
    copy: Path, lines: dict[str, list[Line]], resource: Resource, spelling: str
) -> None:
    name, given = SPELLINGS[spelling], lines[resource.alias]
    own, *lists = typed_tables(resource.alias)
    expected = own_rows(resource, given, name, in_sqlite)
    chosen = ", ".join(f'"{"office_id" if one == "id" else one}"' for one in expected[0])
    rows = query(copy, f"SELECT {chosen} FROM {own.name} ORDER BY sequence")  # noqa: S608 - known names
    assert [[*row.values()] for row in rows] == [[*row.values()] for row in expected]
    for member, wanted in list_rows(resource, given, name, in_sqlite).items():
        (table,) = (table.name for table in lists if table.member == member)
        chosen = ", ".join(f't."{one}"' for one in wanted[0])
        of = f"FROM {table} AS t JOIN {own.name} AS o ON o.id = t.id ORDER BY o.sequence, position"
        rows = query(copy, f"SELECT {chosen} {of}")
        assert [[*row.values()] for row in rows] == [[*row.values()] for row in wanted]


def test_a_city_has_the_average_of_its_prices(copy: Path, lines: dict[str, list[Line]]) -> None:
    """In SQLite, and in DuckDB, whose extension runs the views of a file with its own functions."""
    prices: dict[str, list[int]] = defaultdict(list)
    for record in (line["record"] for line in lines["listings"]):
        prices[record["City"]] += [] if record["ListPrice"] is None else [record["ListPrice"]]
    expected = {city: pytest.approx(sum(sold) / len(sold)) for city, sold in prices.items()}
    assert {row["city"]: row["avg(list_price)"] for row in query(copy, AVERAGES)} == expected
    stored = query(copy, "SELECT * FROM listings_records")
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE listings_records "
            "(id TEXT, company TEXT, content TEXT, record TEXT, sequence BIGINT, time TEXT, exact TEXT)"
        )
        for row in stored:
            kept = [row[name] for name in ("id", "company", "content", "record", "sequence", "time", "exact")]
            database.execute("INSERT INTO listings_records VALUES (?, ?, ?, ?, ?, ?, ?)", kept)
        for table in typed_tables("listings"):
            database.execute(view_statement("listings", table))
        assert dict(database.execute(AVERAGES).fetchall()) == expected
        decimals = "SELECT id, lot_size_acres_decimal, latitude_decimal, longitude_decimal FROM listings ORDER BY id"
        assert database.execute(decimals).fetchall() == [tuple(row.values()) for row in query(copy, decimals)]
        images = "SELECT count(*), sum(width)::BIGINT FROM listing_images WHERE is_main_listing_image"
        counted = database.execute(images).fetchall()
    main = [
        image for line in lines["listings"] for image in line["record"]["ListingImages"] if image["IsMainListingImage"]
    ]
    assert counted == [(len(main), sum(image["Width"] for image in main))]


def test_names_are_those_of_underscore_response() -> None:
    """The client has its own spelling of them."""
    for resource in RESOURCES:
        for field in resource.view(View.INDEX):
            for member in (field, *field.members):
                assert underscore(member.name) == service_spelling(member.name)


def test_no_table_has_two_columns_of_a_name() -> None:
    """Nor a name that SQLite takes for another one."""
    for resource in RESOURCES:
        for table in typed_tables(resource.alias):
            leading = ["id", "position"] if table.member else ["id", "company", "sequence", "time", "content", "record"]
            for spelling in Spelling:
                names = [*leading, *(column.name(spelling).lower() for column in table.columns)]
                assert len({*names}) == len(names)


def test_a_copy_of_the_first_release_gets_views(tmp_path: Path, lines: dict[str, list[Line]]) -> None:
    """Its tables have the names of the views; what users have created for them stays."""
    fill(tmp_path, lines)
    names = [table.name for resource in lines for table in typed_tables(resource)]
    change(
        tmp_path,
        *(f"DROP VIEW {name}" for name in names),
        *(f"ALTER TABLE {resource}_records RENAME TO {resource}" for resource in lines),
        *(f"ALTER TABLE {resource} DROP COLUMN exact" for resource in lines),
        "UPDATE copy_of SET form = 1",
        "CREATE INDEX mine ON listings (company)",
        "CREATE VIEW my_view AS SELECT count(*) AS number FROM listings",
    )
    fill(tmp_path, lines)
    assert query(tmp_path, "SELECT number FROM my_view") == [{"number": len(lines["listings"])}]
    assert len(query(tmp_path, AVERAGES)) == len({line["record"]["City"] for line in lines["listings"]})
    assert query(tmp_path, "SELECT form FROM copy_of") == [{"form": 3}]
    (index,) = query(tmp_path, "SELECT tbl_name FROM sqlite_master WHERE name = 'mine'")
    assert index == {"tbl_name": "listings_records"}


def test_a_copy_without_exact_values_gets_them_with_the_next_snapshot(
    tmp_path: Path, lines: dict[str, list[Line]]
) -> None:
    """Of listings alone; until then their records stay, with whole numbers."""
    fill(tmp_path, lines)
    dropped = [f"DROP VIEW {table.name}" for resource in lines for table in typed_tables(resource)]
    change(tmp_path, *dropped, *(f"ALTER TABLE {resource}_records DROP COLUMN exact" for resource in lines))
    change(tmp_path, "UPDATE copy_of SET form = 2")
    with SqliteCopy(tmp_path, [*lines], "acme") as copy:
        tokens = {resource: copy.checkpoint(resource).token for resource in lines}
    expected = dict.fromkeys(lines, "token") | {"listings": None, "sold_listings": None}
    assert tokens == expected
    acres = "SELECT lot_size_acres_decimal AS acres FROM listings WHERE id = 'hard-0'"
    assert query(tmp_path, acres) == [{"acres": 0.0}]
    fill(tmp_path, lines)
    assert query(tmp_path, acres) == [{"acres": 0.23}]
    with SqliteCopy(tmp_path, [*lines], "acme") as copy:
        assert all(row.is_intact for row in copy.rows("listings"))
    change(tmp_path, "UPDATE listings_records SET exact = '{\"LotSizeAcres\":0.5}' WHERE id = 'hard-0'")
    with SqliteCopy(tmp_path, [*lines], "acme") as copy:
        assert [row.id for row in copy.rows("listings") if not row.is_intact] == ["hard-0"]


def test_views_of_an_earlier_version_are_replaced_and_those_of_users_are_left(
    tmp_path: Path, lines: dict[str, list[Line]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of SQLite without the operator gets others, with the same values."""
    fill(tmp_path, lines)
    change(tmp_path, "DROP VIEW listing_images", "CREATE VIEW listing_images AS SELECT 1 AS mine")
    monkeypatch.setattr(sqlite_views, "_VALUE", "json_extract({}, '$.{}')")
    before = query(tmp_path, AVERAGES)
    fill(tmp_path, lines)
    (view,) = query(tmp_path, "SELECT sql FROM sqlite_master WHERE name = 'listings'")
    assert "->>" not in view["sql"]
    assert query(tmp_path, AVERAGES) == before
    assert query(tmp_path, "SELECT * FROM listing_images") == [{"mine": 1}]
