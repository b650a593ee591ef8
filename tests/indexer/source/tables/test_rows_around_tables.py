"""Rows that are no records: titles above the header, footers, notes; and cells that may be empty if unreadable."""

import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.documents.companies import Companies
from indexer.documents.line_parser import ChunkReader, LineParser, ParsedChunk
from indexer.drafting.map_draft import draft_map
from indexer.inspection import check_source
from indexer.settings import IndexerSettings
from indexer.source.lines import row_notes
from indexer.source.tables.table_source import TableSource
from mappings import AGENT, LISTING
from tests.indexer.source.packing import PACKERS
from tests.indexer.source.tables.table_folder import HEAD, IDENTIFIER, LISTINGS, lines_of, write_map

TITLES = '"Report of\nHarbor Lane"\nGenerated 11/03/2026\n\n,,\n'
RECORD = f'{IDENTIFIER}ListPrice = {{column = "price"}}\nStatus = "Active"\n'
CASES = Path(__file__).parent / "cases"


def mapped(folder: Path, text: str, keys: str = "", record: str = RECORD, file: str = "t.csv") -> str:
    (folder / file).write_bytes(text.encode())
    return write_map(folder, f'{LISTINGS}files = ["*.csv*"]\n{keys}\n{record}')


def read(name: str) -> tuple[list[tuple[int, str | None]], dict[str, int], list[str]]:
    """Return the lines of a source with their identifiers, None for a bad one; the rows left out; and the notes."""
    with open_source(name) as source, source.open(LISTING) as stream:
        assert isinstance(source, TableSource)
        lines = [(line.number, None if isinstance(line, RejectedLine) else _identifier(line)) for line in stream.lines]
        return lines, dict(row_notes(source).skipped.get("listings", {})), source.notes


def _identifier(line: Any) -> str:
    identifier: str = orjson.loads(line.data)["record"]["PlatformListingId"]
    return identifier


@pytest.mark.parametrize("header_at", ["", "header_at = 6"])
def test_titles_above_the_header_are_left_out_and_lines_keep_their_numbers(tmp_path: Path, header_at: str) -> None:
    lines, skipped, notes = read(mapped(tmp_path, f"{TITLES}id;price;x\n1;5;\n2;6;\n", header_at))
    assert (lines, skipped) == ([(7, "1"), (8, "2")], {})
    header = (
        "t.csv is read with the header in line 6, below 3 others, as in Report of Harbor Lane; Generated 11/03/2026; ,,"
    )
    assert notes == [
        "t.csv is read with the delimiter ';': if that is wrong, set `delimiter`",
        *([] if header_at else [f"{header}: if that is wrong, set `header_at`"]),
    ]


@pytest.mark.parametrize("suffix", [*PACKERS])
def test_each_file_may_have_its_own_titles(tmp_path: Path, suffix: str) -> None:
    for name, titles in (("a", TITLES), ("b", ""), ("c", "Office report\n")):
        (tmp_path / f"{name}.csv{suffix}").write_bytes(PACKERS[suffix](f"{titles}price,id\n5,{name}\n".encode()))
    name = write_map(tmp_path, f'{LISTINGS}files = ["*.csv*"]\n{RECORD}')
    assert read(name)[0] == [(7, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("keys", "text", "said"),
    [
        ("", f"{TITLES}id,prize\n1,5\n", r"t\.csv has no column 'price' among: id, prize\. Did you mean 'prize'\?"),
        ("", "x\n" * 30 + "id,price\n1,5\n", "t.csv has no column 'price' among: x"),
        ("header_at = 2", f"{TITLES}id,price\n", "`header_at` is 2, but no row begins there"),
        ("header_at = 9", "id,price\n1,5\n", "`header_at` is 9, but no row begins there"),
        ("header_at = 3", "id,price\n1,5\n2,6\n", "`header_at` is 3, but the columns are in line 1"),
        ("header_at = 0", "id,price\n1,5\n", r"Expected `int` >= 1 - at `\$.header_at`"),
        (
            "header_at = 1",
            "Report\nid,price\n1,5\n",
            "`header_at` is 1, but the columns are in line 2: correct it, or remove it",
        ),
        ('footer = "("', "id,price\n", r"`footer` is '\(', which is not a regular expression"),
        ('footer = ""', "id,price\n", "`footer` is empty"),
        ('skip_if = {id = {matches = ""}}', "id,price\n", "`matches` is empty"),
    ],
)
def test_a_header_that_is_not_there_is_refused(tmp_path: Path, keys: str, text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said), open_source(mapped(tmp_path, text, keys)):
        pass


def test_a_column_whose_name_others_have_is_named_with_its_number(tmp_path: Path) -> None:
    record = RECORD.replace('"price"', '"price (2)"')
    [line] = lines_of(mapped(tmp_path, "Report\nprice,id,price\n5,1,6\n", record=record))
    assert orjson.loads(line.data)["record"]["ListPrice"] == 6


ROWS = 'id,price\n"In accordance with rules",\n1,5\n,7\nX-1,8\n,\nDraft\n'


@pytest.mark.parametrize(
    ("skip_if", "lines", "skipped"),
    [
        (
            '{id = ["", "Draft", {matches = "^In accordance"}, {matches = "-1$"}]}',
            [(3, "1")],
            {
                "id matches '^In accordance'": 1,
                "id is empty": 1,
                "id matches '-1$'": 1,
                "id is 'Draft'": 1,
            },
        ),
        ('{id = {matches = "accordance"}, price = "7"}', [(3, "1"), (5, "X-1"), (7, None)], None),
    ],
)
def test_rows_are_left_out_by_patterns_and_by_empty_cells(
    tmp_path: Path, skip_if: str, lines: Any, skipped: Any
) -> None:
    found, reasons, _ = read(mapped(tmp_path, ROWS, f"skip_if = {skip_if}"))
    assert found == lines
    assert skipped is None or reasons == skipped


def test_a_row_of_other_width_is_no_note_unless_it_has_one_text(tmp_path: Path) -> None:
    lines, skipped, _ = read(mapped(tmp_path, "id,price\nDraft,5,6\nDraft,,\n", 'skip_if = {id = "Draft"}'))
    assert (lines, skipped) == ([(2, None)], {"id is 'Draft'": 1})


@pytest.mark.parametrize("footer", ["Total: 2 listings", '"",Total,9', "\nTotal: 2\n\n,\n"])
def test_the_last_row_is_the_footer(tmp_path: Path, footer: str) -> None:
    lines, skipped, _ = read(mapped(tmp_path, f"id,price\n1,5\n2,6\n{footer}", 'footer = "^Total"'))
    assert (lines, skipped) == ([(2, "1"), (3, "2")], {"footer": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,price\n1,5\n2,6\n", "its last row, in line 3, is another"),
        ("id,price\n1,5\nTotal: 1\n2,6\n", "its last row, in line 4, is another"),
        ("id,price\n", "it has no rows"),
    ],
)
def test_a_file_without_its_footer_is_refused_as_cut_off(tmp_path: Path, text: str, said: str) -> None:
    said = f"t.csv does not end with the `footer` that its column map declares: {said}"
    with pytest.raises(SourceError, match=said):
        lines_of(mapped(tmp_path, text, 'footer = "^Total"'))


def parsed(name: str, resource: Any = LISTING) -> ParsedChunk:
    settings = IndexerSettings()
    with open_source(name) as source, source.open(resource) as stream:
        chunk = ChunkReader(LineParser(resource, Companies({"acme"}), settings), stream, settings).read()
    assert chunk is not None
    return chunk


OPTIONAL = """[record]
PlatformListingId = {column = "id"}
Status = {column = "status"}
YearBuilt = {column = "year"%s}
PropertyType = {column = "type"%s}
OpenHouse = [{Date = {column = "day"%s}, StartTime = {column = "start"}}]
ListAgentUUID = {column = "agent"%s}
"""
COLUMNS = "id,status,year,type,day,start,agent\n"
BAD = "c.1900,Castle,soon,10:00,nobody"
UNREADABLE = {
    "record.YearBuilt": "t.csv:3: column year: 'c.1900' is not a number",
    "record.OpenHouse.Date": "t.csv:3: column day: 'soon' is not an ISO 8601 date",
}


@pytest.mark.parametrize("suffix", ["", ', on_error = "empty"'])
def test_an_optional_cell_that_cannot_be_read_is_empty_and_counted(tmp_path: Path, suffix: str) -> None:
    """Whether the conversion of the cell or a rule of the field refuses it; for a column or for all of a table."""
    text = f"{COLUMNS}1,Active,1900,,,,\n2,Active,{BAD}\n3,Active,x,,,,\n"
    keys = "" if suffix else 'on_error = "empty"'
    chunk = parsed(mapped(tmp_path, text, keys, OPTIONAL % ((suffix,) * 4)))
    assert (len(chunk.drafts), chunk.rejected) == (3, [])
    record = orjson.loads(chunk.drafts[1].record or b"")
    assert (record["YearBuilt"], record["PropertyType"], record["ListAgentUUID"]) == (None, None, None)
    assert [(one["Date"], one["StartTime"]) for one in record["OpenHouse"]] == [(None, "10:00:00")]
    assert {one.field: one.count for one in chunk.emptied} == {
        "record.YearBuilt": 2,
        "record.OpenHouse.Date": 1,
        "record.ListAgentUUID": 1,
        "record.PropertyType": 1,
    }
    assert {one.field: one.examples[0] for one in chunk.emptied}.items() >= UNREADABLE.items()


@pytest.mark.parametrize(
    ("row", "keys", "fields"),
    [
        (
            f"b b,Odd,{BAD}",
            "",
            ["YearBuilt", "OpenHouse[0].Date", "PlatformListingId", "ListAgentUUID", "Status", "PropertyType"],
        ),
        ("2,Odd,x,Castle,,,", 'on_error = "empty"', ["YearBuilt", "Status", "PropertyType"]),
        ("2,,x,,,,", 'on_error = "empty"', ["YearBuilt", "Status"]),
        ("2,Active,x,,soon,,", "", ["YearBuilt", "OpenHouse[0].Date"]),
    ],
)
def test_a_bad_row_is_reported_with_all_of_its_faults(tmp_path: Path, row: str, keys: str, fields: list[str]) -> None:
    """A cell that may be empty is a fault as well if the row cannot be served anyway."""
    chunk = parsed(mapped(tmp_path, f"{COLUMNS}{row}\n", keys, OPTIONAL % (("",) * 4)))
    [item] = chunk.rejected
    assert [fault.field.removeprefix("record.") for fault in item.error.all] == fields
    assert chunk.emptied == []


@pytest.mark.parametrize(
    "record",
    [
        'PlatformListingId = {column = "id", on_error = "empty"}',
        f'{IDENTIFIER}Status = {{column = "x", on_error = "empty"}}',
        f'{IDENTIFIER}InternetEntireListingDisplayYN = {{column = "x", on_error = "empty"}}',
    ],
)
def test_what_identifies_or_shows_a_record_cannot_be_empty(tmp_path: Path, record: str) -> None:
    record = record if record.startswith("[record]") else f"[record]\n{record}"
    with pytest.raises(SourceError, match=r"record\.\w+ cannot be empty: remove `on_error`"):
        open_source(mapped(tmp_path, "id,x\n1,2\n", record=record)).__enter__()


def test_with_on_error_for_a_table_no_unreadable_switch_shows_a_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "agent_uuid,profile_visible_online,status\n" + "0" * 8 + "-0000-0000-0000-000000000000,?,\n"
    )
    keys = 'file = "t.csv"\npass_through = true\non_error = "empty"\n'
    chunk = parsed(write_map(tmp_path, f'resource = "agents"\n{HEAD}{keys}'), AGENT)
    assert [item.error.field for item in chunk.rejected] == ["record.profile_visible_online"]


def test_a_check_names_what_is_left_out_and_objects_to_a_column_that_is_unreadable(tmp_path: Path) -> None:
    rows = "".join(f"{number},Active,{'x' if number < 21 else 1900},,,,\n" for number in range(200))
    text = f"{COLUMNS}{rows}Draft,Active,1,,,,\nTotal: 200\n"
    keys = 'on_error = "empty"\nskip_if = {id = "Draft"}\nfooter = "^Total"'
    with open_source(mapped(tmp_path, text, keys, OPTIONAL % (("",) * 4))) as source:
        found = check_source(source)
    [check] = found.resources
    assert (check.bad, check.skipped, check.skip_reasons) == (0, 2, {"id is 'Draft'": 1, "footer": 1})
    assert [(one.field, one.count, len(one.examples)) for one in check.emptied] == [("record.YearBuilt", 21, 3)]
    assert found.objections == [
        "record.YearBuilt cannot be read in 21 of 200 listings, more than a tenth, such as t.csv:2: column year: 'x' "
        "is not a number. Correct its declaration in the column map, or list the texts in `empty`"
    ]


# Of the files that people really have, what is no matter of single cells: the lines of records and the rows left out.
NOTE = {"MLS# matches '^In accordance with local'": 1}
EXPECTED = {
    "ambiguous_hour": ("id", [2], {}),
    "floats": ("listing_id", [2, 3, 4, 5], {}),
    "footer": ("MLS#", [3, 4, 5, 6], {"footer": 1, **NOTE}),
    "preamble": ("MLS#", [5], {}),
    "report": ("Listing No", [5, 6, 7], {"footer": 1}),
    "spreadsheet": ("MLS#", [2, 4, 5, 6, 7, 8, 9, 10], {"footer": 1, **NOTE}),
}


@pytest.mark.parametrize("case", EXPECTED)
def test_a_draft_says_where_the_records_of_a_messy_file_are(tmp_path: Path, case: str) -> None:
    identifier, numbers, skipped = EXPECTED[case]
    drafted = draft_map([str(CASES / f"{case}.csv")], tmp_path, resource=LISTING).text
    [table] = [value for value in tomllib.loads(drafted).values() if isinstance(value, dict)]
    extent = {key: table[key] for key in ("files", "footer", "skip_if") if key in table}
    keys = "\n".join(line for line in drafted.splitlines() if line.partition(" ")[0] in extent)
    record = f'[record]\nPlatformListingId = {{column = "{identifier}"}}\n'
    lines, reasons, _ = read(write_map(tmp_path, f"{LISTINGS}{keys}\n{record}"))
    assert ([number for number, _ in lines], reasons) == (numbers, skipped)
