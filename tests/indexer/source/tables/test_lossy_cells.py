"""Cells that data frames and spreadsheets have damaged: what repairs them, and what is named if nothing does."""

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.drafting.map_draft import draft_map
from indexer.inspection import check_source
from indexer.reporting.report import tolerated_count
from indexer.settings import IndexerSettings
from tests.indexer.source.tables.table_folder import IDENTIFIER, LISTINGS, cell, lines_of, write_map

IDENTITY, ZIP, PRICE, DAY, BATHS, AGENT = (
    *("PlatformListingId", "PostalCode", "ListPrice", "CreatedDate", "BathroomsTotal", "ListAgentUUID"),
)
WHOLE, PAD = '{column = "x", whole = true}', '{column = "x", pad = 5}'
LOST = "is in scientific notation: the program that wrote the file has lost its digits; export the column as text"
MONEY = '{column = "x", currency = "$", units = {K = 1000, M = 1_000_000}}'
FEET = '{column = "x", units = {ac = 1, "sq ft" = 0.5}}'


# What a field becomes that is declared so, from a row whose column x has a text; where it is refused, the reason.
@pytest.mark.parametrize(
    ("field", "declared", "text", "value"),
    [
        # Whole numbers
        (ZIP, WHOLE, "2114.0", "2114"),
        (ZIP, WHOLE, "2114.", "2114"),
        (ZIP, WHOLE, "02114", "02114"),
        (ZIP, WHOLE, "02114-1234", "02114-1234"),
        (ZIP, WHOLE, "K1A 0B1", "K1A 0B1"),
        (ZIP, WHOLE, "2114.5", "column x: '2114.5' is not a whole number"),
        (ZIP, WHOLE, "7.3289979E+07", "73289979"),
        (ZIP, WHOLE, "1.0E7", f"column x: '1.0E7' {LOST}"),
        (ZIP, WHOLE, "7.33E+07", f"column x: '7.33E+07' {LOST}"),
        (ZIP, WHOLE, "7,33E+07", f"column x: '7,33E+07' {LOST}"),
        (ZIP, WHOLE, "1.2345678901234568e+16", f"column x: '1.2345678901234568e+16' {LOST}"),
        (ZIP, WHOLE, "24E1234", "24E1234"),
        (
            ZIP,
            WHOLE,
            "12345678901234568.0",
            "column x: '12345678901234568.0' has more digits than a number with a decimal point keeps: "
            "export the column as text",
        ),
        ("PoolYN", WHOLE, "1.0", True),
        ("Address", '{join = ["x", "y"], whole = true}', "106.0", "106 Elm"),
        # Zeros in front
        (ZIP, PAD, "2134", "02134"),
        (ZIP, PAD, "02134", "02134"),
        (ZIP, PAD, "02134-1", "02134-1"),
        (ZIP, '{column = "x", whole = true, pad = 5}', "2134.0", "02134"),
        # Texts and numbers that mean nothing
        (DAY, '{column = "x", empty_if = ["0000-00-00"]}', "0000-00-00", None),
        (PRICE, '{column = "x", empty_if = [0]}', "0.00", None),
        (PRICE, '{column = "x", empty_if = [0]}', "10", 10),
        (PRICE, '{formula = "{x} * 2", empty_if = [0]}', "0", None),
        ("Latitude", '{column = "x", empty_if = [0]}', "0.0000", None),
        (ZIP, '{column = "x", empty_if = ["unknown"]}', "unknown", None),
        # Units
        (PRICE, MONEY, "$475K", 475_000),
        (PRICE, MONEY, "$1.005 K", 1_005),
        (PRICE, MONEY, "$612", 612),
        (PRICE, MONEY, "$1.2B", "column x: '$1.2B' is not a number"),
        (PRICE, MONEY, "$1e6", 1_000_000),
        (BATHS, FEET, "0.25 ac", 0.25),
        (BATHS, FEET, "9 sq ft", 4.5),
        # Numbers of parts
        (BATHS, '{column = "x", split = "/", weights = [1, 0.5]}', "3/1", 3.5),
        (BATHS, '{column = "x", split = "/", weights = [1, 0.5]}', "2", 2),
        (BATHS, '{column = "x", split = "/", weights = [0, 1]}', "2 / 2", 2),
        (BATHS, '{column = "x", split = "/", weights = [0, 1]}', "3/", 0),
        (
            BATHS,
            '{column = "x", split = "/", weights = [1]}',
            "3/1",
            "column x: '3/1' has 2 parts, but `weights` has 1",
        ),
        (BATHS, '{column = "x", split = "/", weights = [1, 1]}', "3/a", "column x: '3/a' is not a number"),
        # Formulas of spreadsheets for a text
        (ZIP, '{column = "x"}', '="00730"', "00730"),
        (ZIP, '{column = "x"}', '="a ""b"""', 'a "b"'),
        (ZIP, '{column = "x"}', '="a"&"b"', '="a"&"b"'),
        ("PublicRemarks", '{column = "x"}', '<a href="b">', '<a href="b">'),
    ],
)
def test_a_cell_is_repaired_as_declared_or_refused(
    tmp_path: Path, field: str, declared: str, text: str, value: object
) -> None:
    assert cell(tmp_path, declared, text, field, y="Elm") == value


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('{column = "x", units = {1 = 2}}', "`units` has '1'"),
        ('{column = "x", weights = [1]}', "`weights` is for the parts of a cell: give `split`"),
        ('{column = "x", pad = 0}', "Expected `int` >= 1"),
    ],
)
def test_members_that_cannot_be_used_are_refused(tmp_path: Path, declared: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        cell(tmp_path, declared, "1", PRICE)


def _loaded(folder: Path, members: dict[str, str], column: list[str]) -> tuple[list[str], list[str]]:
    """Return the identifiers that are read from a table, and the warnings and faults of its report."""
    rows = ["id,x", *(f'{number},"{text}"' for number, text in enumerate(column))]
    (folder / "table.csv").write_text("\n".join(rows))
    fields = "\n".join(f"{name} = {declared}" for name, declared in members.items())
    record = f"[record]\n{fields}" if IDENTITY in members else f'{IDENTIFIER}Status = "Active"\n{fields}'
    name = write_map(folder, f'{LISTINGS}file = "table.csv"\n{record}')
    with open_source(name) as source:
        [found] = check_source(source).resources
    return found.warnings, [f"{fault.count}: {fault.reason}" for fault in found.faults]


X = '{column = "x"}'
Z = '{column = "x", empty_if = [0]}'


# The warnings of a field that is declared so, for a column with these texts.
@pytest.mark.parametrize(
    ("field", "declared", "column", "warnings"),
    [
        (
            ZIP,
            X,
            ["2114.0", "02115", "2116.00"],
            [
                "2 cells with \".0\" at the end, such as '2114.0' in table.csv:2",
                "2 cells with fewer than 5 digits, such as '2114.0' in table.csv:2",
            ],
        ),
        (ZIP, X, ["2134", "02115", "815"], ["2 cells with fewer than 5 digits, such as '815' in table.csv:4"]),
        (ZIP, X, ["nan", "02115", "#N/A"], ["2 cells without a value, such as 'nan' in table.csv:2"]),
        ("City", X, ["1.2E+05"], ["1 cell in scientific notation, such as '1.2E+05' in table.csv:2"]),
        (
            AGENT,
            '{uuid5 = "agent {x}"}',
            ["103378.0"],
            ["1 cell with \".0\" at the end, such as '103378.0' in table.csv:2"],
        ),
        ("Address", '{join = ["x", "id"]}', ["1.0"], ["1 cell with \".0\" at the end, such as '1.0' in table.csv:2"]),
        (PRICE, X, ["0", "5", "0.00"], ["2 cells with a placeholder, such as '0' in table.csv:2"]),
        (PRICE, X, ["9999999", "9999"], ["1 cell with a placeholder, such as '9999999' in table.csv:2"]),
        ("YearBuilt", X, ["9999", "1999"], ["1 cell with a placeholder, such as '9999' in table.csv:2"]),
        ("Longitude", X, ["-0.000000", "0.5"], ["1 cell with a placeholder, such as '-0.000000' in table.csv:2"]),
        (
            DAY,
            '{column = "x", format = "%m/%d/%Y"}',
            ["1/1/1900", "2/1/1900"],
            ["1 cell with a placeholder, such as '1/1/1900' in table.csv:2"],
        ),
        # Healthy, or repaired
        (ZIP, X, ["02114", "02115-1234", "1E10", "K1A 0B1"], []),
        (ZIP, WHOLE, ["2114.0", "1.0"], []),
        (ZIP, PAD, ["2134", "02115"], []),
        (PRICE, Z, ["0", "0.0"], []),
        (PRICE, X, ["5e5", "1e+06", "100.0"], []),
        ("BedroomsTotal", X, ["0", "2.0"], []),
        ("Latitude", X, ["42.0"], []),
        ("PublicRemarks", X, ["1.0"], []),
        ("City", '{column = "x", map = {nan = "None"}}', ["nan"], []),
    ],
)
def test_what_is_damaged_and_not_repaired_is_counted_by_column(
    tmp_path: Path, field: str, declared: str, column: list[str], warnings: list[str]
) -> None:
    found, faults = _loaded(tmp_path, {field: declared}, column)
    assert [warning.rpartition(": ")[0] for warning in found] == [f"{field}, column x: {one}" for one in warnings]
    assert faults == []


def test_identifiers_without_their_digits_are_refused_and_others_keep_their_identity(tmp_path: Path) -> None:
    fields = {IDENTITY: X, "Status": '"Active"'}
    warnings, faults = _loaded(tmp_path, fields, ["7.33E+07", "7.33E+07", "103378.0", "24E1234", "7.3289979E+07"])
    assert faults == [f"2: … {LOST}"]
    assert [warning.partition(", such")[0] for warning in warnings] == [
        f'{IDENTITY}, column x: 1 cell with ".0" at the end',
        f"{IDENTITY}, column x: 1 cell in scientific notation",
    ]
    kept = [b"103378.0", b"24E1234", b"7.3289979E+07"]
    lines = lines_of(str(tmp_path / "map.toml"))
    assert [line.data.split(b'"PlatformListingId":"')[1].split(b'"')[0] for line in lines[2:]] == kept


DEAD_LETTER_LIMIT = IndexerSettings().dead_letter_limit
WRITERS: dict[str, Callable[[str], str]] = {
    "float": lambda text: str(float(text)),
    "%g": lambda text: f"{float(text):g}",
    "%e": lambda text: f"{float(text):e}",
    "%.2f": lambda text: f"{float(text):.2f}",
    "spreadsheet": lambda text: text.lstrip("0") if len(text) < 12 else f"{float(text):.5E}",
    "narrow column": lambda text: f"{float(text):.2E}",
    "java": lambda text: f"{float(text):.6E}".replace("E+0", "E").replace("E+", "E"),
    "formula": lambda text: f'="{text}"',
    "text": lambda text: text,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("digits", [6, 8, 10, 15, 17])
def test_with_the_drafted_members_an_identifier_is_the_original_or_its_line_is_named(
    tmp_path: Path, writer: str, digits: int
) -> None:
    chance = random.Random(f"{writer} {digits}")  # noqa: S311 - made-up values
    given = [f"{chance.randrange(10**digits):0{digits}d}" for _ in range(300)]
    with (tmp_path / "export.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["MLS Number", "Status"], *([WRITERS[writer](one), "Active"] for one in given)])
    name = write_map(tmp_path, draft_map([str(tmp_path / "export.csv")], tmp_path, company="acme").text)
    with open_source(name) as source:
        [found] = check_source(source).resources
    named, is_refused = " ".join(found.warnings), found.bad > tolerated_count(DEAD_LETTER_LIMIT, found.lines)
    for line, original in zip(lines_of(name), given, strict=True):
        is_equal = not isinstance(line, RejectedLine) and f'"PlatformListingId":"{original}"'.encode() in line.data
        is_short = f"fewer than {digits} digits" in named and original.startswith("0")
        is_named = isinstance(line, RejectedLine) or is_short or is_refused
        assert is_equal or is_named, (line.data, original, found.warnings)
