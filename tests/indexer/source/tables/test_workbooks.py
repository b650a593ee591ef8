"""A sheet of an Excel workbook is a table like the CSV file that Excel saves of it."""

import datetime as dt
import sys
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from openpyxl import Workbook

from indexer import SourceError, open_source
from indexer.drafting.map_draft import draft_map
from indexer.source.lines import SourceLine
from indexer.source.tables.table_source import TableSource
from mappings import LISTING
from tests.internals import Internals

_MAP = """
[listings]
files = ["listings.xlsx"]
{keys}
platform_company_id = "acme"
updated_at = {{column = "Changed"}}
[listings.record]
PlatformListingId = {{column = "MLS#"}}
Status = {{column = "Status"}}
ListPrice = {{column = "Price"}}
PostalCode = {{column = "Zip"}}
ListingContractDate = {{column = "Listed"}}
PoolYN = {{column = "Pool"}}
PublicRemarks = {{column = "Remarks"}}
"""
_HEADER = ["MLS#", "Status", "Price", "Zip", "Listed", "Changed", "Pool", "Remarks"]
_CHANGED = dt.datetime(2026, 11, 3, 9, 15)  # noqa: DTZ001 - as a workbook has it
_ROW = [73289979, "Active", 449900.5, "02114", dt.datetime(2026, 9, 17), _CHANGED, True, "two\nlines, and é"]  # noqa: DTZ001


def write(folder: Path, *rows: list[Any], others: tuple[str, ...] = ()) -> Path:
    book = Workbook()
    first: Any = book.active
    for row in rows:
        first.append(row)
    for name in others:
        book.create_sheet(name).append(["nothing"])
    book.save(folder / "listings.xlsx")
    return folder / "listings.xlsx"


def read(folder: Path, keys: str = "") -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """Return the lines of the listings with their records, and what was noted."""
    (folder / "map.toml").write_text(_MAP.format(keys=keys))
    with open_source(str(folder / "map.toml")) as source:
        assert isinstance(source, TableSource)
        with source.open(LISTING) as stream:
            found = [*stream.lines]
        lines = [line for line in found if isinstance(line, SourceLine)]
        assert len(lines) == len(found), found
        return [(line.number, orjson.loads(line.data)["record"]) for line in lines], source.notes


def test_values_of_a_sheet_are_those_that_excel_shows(tmp_path: Path) -> None:
    write(tmp_path, ["Report"], [], _HEADER, _ROW, [], [73289980, "Active", 5e5, "02114", None, _CHANGED, False, None])
    lines, notes = read(tmp_path)
    first, second = [record for _, record in lines]
    assert [number for number, _ in lines] == [4, 7]  # a cell with two lines makes a line more
    assert first == {
        "PlatformListingId": "73289979",
        "Status": "Active",
        "ListPrice": 449900.5,
        "PostalCode": "02114",
        "ListingContractDate": "2026-09-17",
        "PoolYN": True,
        "PublicRemarks": "two\nlines, and é",
    }
    assert (second["ListPrice"], second["PoolYN"], second.get("ListingContractDate")) == (500_000, False, None)
    assert [note for note in notes if "header in line 3" in note]


def test_the_first_sheet_is_read_and_said_or_the_one_that_is_named(tmp_path: Path) -> None:
    write(tmp_path, _HEADER, _ROW, others=("Notes",))
    assert "read from the sheet 'Sheet', the first of 2" in read(tmp_path)[1][0]
    lines, notes = read(tmp_path, 'sheet = "Sheet"')
    assert (len(lines), notes) == (1, [])
    with pytest.raises(SourceError, match=r"listings.xlsx has no sheet 'Sales': it has Sheet, Notes\."):
        read(tmp_path, 'sheet = "Sales"')
    (tmp_path / "listings.xlsx").write_text(",".join(_HEADER) + "\n")
    with pytest.raises(SourceError, match=r"is no Excel workbook, so it has no sheet 'Sales': remove `sheet`\."):
        read(tmp_path, 'sheet = "Sales"')


def test_a_draft_reads_workbooks(tmp_path: Path) -> None:
    draft = draft_map([str(write(tmp_path, ["Report"], _HEADER, _ROW, _ROW))], tmp_path, company="acme")
    guessed = {guess.column: guess.field for guess in draft.tables[0].guesses}
    assert (guessed["MLS#"], guessed["Zip"], guessed["Price"]) == ("PlatformListingId", "PostalCode", "ListPrice")
    (tmp_path / "drafted.toml").write_text(draft.text)
    with open_source(str(tmp_path / "drafted.toml")) as source, source.open(LISTING) as stream:
        assert len([*stream.lines]) == 2


def test_formulas_without_saved_values_are_refused(tmp_path: Path) -> None:
    write(tmp_path, _HEADER, _ROW, ['="0073412001"', *_ROW[1:]])
    with pytest.raises(SourceError, match=r"has formulas whose values are not saved in it, .*: open it in Excel and"):
        read(tmp_path)


def test_what_unpacks_to_too_much_or_is_no_workbook_is_refused(
    tmp_path: Path, internals: Internals, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, _HEADER, *[_ROW] * 1_000)
    internals(largest_workbook_bytes=50_000)
    with pytest.raises(SourceError, match=r"listings.xlsx unpacks to more than 0 MB: save the sheet as CSV"):
        read(tmp_path)
    with zipfile.ZipFile(tmp_path / "listings.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook")
    with pytest.raises(SourceError, match=r"cannot be read as an Excel workbook \(.*\): save the sheet as CSV"):
        read(tmp_path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(SourceError, match=r"which needs openpyxl: pip install openpyxl"):
        read(tmp_path)
