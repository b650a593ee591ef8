"""Cells as brokerages write them, and the values that they become."""

from pathlib import Path
from uuid import UUID

import pytest

from indexer import RejectedLine, SourceError, open_source
from mappings import AGENT
from tests.indexer.source.tables.table_folder import (
    IDENTIFIER,
    LISTINGS,
    cell,
    identifiers_of,
    lines_of,
    records_of,
    write_map,
)

X = '{column = "x"}'


@pytest.mark.parametrize(
    ("head", "text", "value"),
    [
        ('currency = "$"\nthousands = ","', "$14,950,000", 14_950_000),
        ('currency = "$"\nthousands = ","', "7,753", 7_753),
        ('currency = "$"\nthousands = ","', "4471", 4_471),
        ('currency = "$"\nthousands = ","', "-$1,234.50", -1234.5),
        ('currency = ["$", "USD"]', "USD 5", 5),
        ('currency = "€"\nthousands = "."\ndecimal = ","', "1.234.567,89 €", 1_234_567.89),
        ('decimal = ","', "2,5", 2.5),
        ('thousands = " "', "1\u00a0234\u202f567", 1_234_567),
        ('thousands = "\'"', "1'234", 1_234),
        ('thousands = ","', "12,5", "column x: '12,5' is not a number"),
        ('thousands = ","', "1,2345", "column x: '1,2345' is not a number"),
        ('thousands = "."\ndecimal = ","', "1.5", "column x: '1.5' is not a number"),
        ("", "call us", "column x: 'call us' is not a number"),
    ],
)
def test_numbers_are_read_as_the_map_declares_them(tmp_path: Path, head: str, text: str, value: object) -> None:
    assert cell(tmp_path, X, text, head=f"{head}\n") == value


def test_a_cell_may_differ_from_its_table(tmp_path: Path) -> None:
    declared = '{column = "x", decimal = ".", thousands = ",", currency = "$"}'
    assert cell(tmp_path, declared, "$1,000.5", head='decimal = ","\nthousands = "."\n') == 1000.5


@pytest.mark.parametrize(
    ("field", "declared", "head", "text", "value"),
    [
        ("CreatedDate", X, 'date_format = "%m/%d/%Y"', "9/22/2024", "2024-09-22"),
        ("CreatedDate", X, 'date_format = ["%m/%d/%Y", "%Y%m%d"]', "20240922", "2024-09-22"),
        ("CreatedDate", X, 'date_format = ["%m/%d/%Y", "ISO"]', "2024-09-22", "2024-09-22"),
        ("CreatedDate", '{column = "x", format = "%d.%m.%y"}', 'date_format = "%Y"', "22.09.24", "2024-09-22"),
        ("CreatedDate", X, 'date_format = "%m/%d/%Y"', "22/9/2024", "column x: '22/9/2024' does not match the format"),
        ("ModificationTimestamp", X, 'time_zone = "America/New_York"', "2024-07-01T12:00", "2024-07-01T12:00:00-04:00"),
        (
            "ModificationTimestamp",
            X,
            'time_zone = "America/New_York"',
            "2024-01-01T12:00Z",
            "2024-01-01T12:00:00+00:00",
        ),
        (
            "ModificationTimestamp",
            X,
            'time_zone = "America/Denver"\ndate_time_format = "%m/%d/%Y %I:%M %p"',
            "01/02/2024 1:30 PM",
            "2024-01-02T13:30:00-07:00",
        ),
    ],
)
def test_dates_are_read_as_the_map_declares_them(
    tmp_path: Path, field: str, declared: str, head: str, text: str, value: str
) -> None:
    assert str(cell(tmp_path, declared, text, field, f"{head}\n")).startswith(value)


def test_times_of_day_and_lists_of_objects(tmp_path: Path) -> None:
    declared = """[{
        Date = {column = "x", format = "%B-%d-%Y %I:%M %p"},
        StartTime = {column = "x", time_format = "%B-%d-%Y %I:%M %p"},
    }]""".replace("\n", "")
    assert cell(tmp_path, declared.replace(",    }", "}"), "September-22-2024 01:30 PM", "OpenHouse") == [
        {"Date": "2024-09-22", "StartTime": "13:30:00"}
    ]


@pytest.mark.parametrize(
    ("formula", "text", "value"),
    [
        ("{x} / 43560", "87,120", 2),
        ("floor({x})", "2.5", 2),
        ("ceil({x} % 1)", "2.5", 1),
        ("ceil({x} % 1)", "3", 0),
        ("({x} + {x}) * 2 - 1", "1", 3),
        ("max({x}, 10)", "1", 10),
        ("-{x}", "1", -1),
        ("1 / {x}", "0", "column x: '0' divides by zero"),
        ("{x}", "many", "column x: 'many' is not a number"),
        ("{x}", "", None),
        ("{x} * 1e300", "9" * 30, f"column x: '{'9' * 30}' has a result that is out of range"),
    ],
)
def test_arithmetic(tmp_path: Path, formula: str, text: str, value: object) -> None:
    assert cell(tmp_path, f'{{formula = "{formula}"}}', text, head='thousands = ","\n') == value


@pytest.mark.parametrize(
    "formula",
    ["{x} ** 9", "__import__({x})", "{x}.real", "{x} if 1 else 2", "'a' * {x}", "max({x})", "{x} +"],
)
def test_a_formula_is_arithmetic_only(tmp_path: Path, formula: str) -> None:
    with pytest.raises(SourceError, match=r"record\.ListPrice: .*(is not a formula: use \{column\}|has no column)"):
        cell(tmp_path, f'{{formula = "{formula}"}}', "1")


@pytest.mark.parametrize(
    ("field", "declared", "text", "value"),
    [
        ("City", '{join = ["x", "y", "z"]}', "5", "5 Elm"),
        ("City", '{join = ["y", "x"], separator = ", "}', "5", "Elm, 5"),
        ("City", '{join = ["x", "z"]}', "", None),
        ("City", '{template = "{x} {z}"}', "5", None),
        ("City", '{column = "x", replace = {" " = "-", "/" = "_"}}', "a b/c", "a-b_c"),
        ("City", '{column = "x", map = {a = "b"}, keep_unmapped = true}', "c", "c"),
        (
            "PropertyFeatures",
            '[{PropertyFeatureName = "F", PropertyFeatureValues = [{column = "x", split = ";"}]}]',
            "Pool; Dock;;",
            [{"PropertyFeatureName": "F", "PropertyFeatureValues": ["Pool", "Dock"]}],
        ),
        (
            "ListingImages",
            '[{FullURL = {column = "x", split = "|"}, Title = {column = "y"}}]',
            "a|b",
            [{"Title": "Elm", "FullURL": "a"}, {"Title": "Elm", "FullURL": "b"}],
        ),
        ("ListingImages", '[{FullURL = {column = "x", split = "|"}, Title = "t"}]', "", None),
    ],
)
def test_texts_are_joined_replaced_and_split(
    tmp_path: Path, field: str, declared: str, text: str, value: object
) -> None:
    assert cell(tmp_path, declared, text, field, y="Elm", z="") == value


def test_an_element_that_is_not_a_value_is_named(tmp_path: Path) -> None:
    declared = '[{Width = {column = "x", split = ","}}]'
    assert cell(tmp_path, declared, "1,b", "ListingImages") == "column x: one value of '1,b' is not a number"
    with pytest.raises(SourceError, match=r"record\.City is not a list: remove `split`"):
        cell(tmp_path, '{column = "x", split = ","}', "a", "City")


def test_texts_that_count_as_empty_and_signs_to_trim(tmp_path: Path) -> None:
    head = 'empty = ["N/A", "NULL"]\ntrim = "\'*"\n'
    assert cell(tmp_path, X, " 'Rye'* ", "City", head) == "Rye"
    assert cell(tmp_path, X, "N/A", "City", head) is None


def test_rows_are_skipped_by_their_cells(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("id,state\n1,Draft\n2,Live\n,Live\n3,Test\n")
    head = f'{LISTINGS}file = "table.csv"\nskip_if = {{state = ["Draft", "Test"], id = ""}}\n{IDENTIFIER}'
    assert identifiers_of(write_map(tmp_path, head)) == ["2"]


def test_agents_without_uuids_get_them_from_their_company_and_columns(tmp_path: Path) -> None:
    (tmp_path / "agents.csv").write_text("id,name,firm\n17,Ann,acme\n17,Bob,other\n17,Ann,acme\n,Eve,acme\n")
    declared = """resource = "agents"
        updated_at = "2026-01-01"
        file = "agents.csv"
        platform_company_id = {column = "firm"}
        record = {agent_uuid = {uuid5 = "agent {id}"}}"""
    lines = lines_of(write_map(tmp_path, declared), AGENT)
    name = write_map(tmp_path, declared.replace('"agents.csv"', '"agents.csv"\nskip_if = {id = ""}'))
    first, second, third = (record["agent_uuid"] for record in records_of(name, AGENT))
    assert UUID(first).version == 5
    assert first == third != second
    assert len(lines) == 4
    assert not any(isinstance(line, RejectedLine) for line in lines)


def test_columns_with_names_of_fields_pass_through(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("PlatformListingId,ListPrice,City,Other,OnMarket\n1,5,Rye,x,yes\n")
    head = f'{LISTINGS}file = "table.csv"\npass_through = true\n'
    assert records_of(write_map(tmp_path, f"{head}[record]\nCity = 'Set'\n")) == [
        {"PlatformListingId": "1", "ListPrice": 5, "City": "Set", "OnMarket": True}
    ]
    (tmp_path / "table.csv").write_text("ListPrice\n5\n")
    with (
        pytest.raises(SourceError, match=r"table\.csv has no column 'PlatformListingId': set it in \[record\]"),
        open_source(write_map(tmp_path, head)),
    ):
        pass
