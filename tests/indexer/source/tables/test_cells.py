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
PRICE, CITY, ANY = "ListPrice", "City", "Address2"
DAY, TIME = "CreatedDate", "ModificationTimestamp"
US, EURO = 'currency = "$"\nthousands = ","', 'currency = "€"\nthousands = "."\ndecimal = ","'
NEW_YORK = 'time_zone = "America/New_York"'
SESSIONS = (
    '[{Date = {column = "x", format = "%B-%d-%Y %I:%M %p"}, '
    'StartTime = {column = "x", time_format = "%B-%d-%Y %I:%M %p"}}]'
)
FEATURES = '[{PropertyFeatureName = "F", PropertyFeatureValues = [{column = "x", split = ";"}]}]'


# What a field becomes that is declared so, from a row whose columns are x, y (Elm) and z (empty), below keys of the
# map; where a cell does not fit, the reason.
@pytest.mark.parametrize(
    ("field", "declared", "keys", "text", "value"),
    [
        # Constants
        (CITY, '"Rye"', "", "", "Rye"),
        (PRICE, "9", "", "", 9),
        ("PoolYN", "false", "", "", False),
        (TIME, '"2026-01-02T03:04+02:00"', "", "", "2026-01-02T03:04:00+02:00"),
        # Numbers
        (PRICE, X, "", "1", 1),
        (PRICE, X, "", " -3 ", -3),
        (PRICE, X, "", "2.5", 2.5),
        (PRICE, X, "", ".5", 0.5),
        (PRICE, X, "", "1e3", 1000.0),
        (PRICE, X, "", "", None),
        (PRICE, X, "", "   ", None),
        (PRICE, X, US, "$14,950,000", 14_950_000),
        (PRICE, X, US, "7,753", 7_753),
        (PRICE, X, US, "4471", 4_471),
        (PRICE, X, US, "-$1,234.50", -1234.5),
        (PRICE, X, 'currency = ["$", "USD"]', "USD 5", 5),
        (PRICE, X, EURO, "1.234.567,89 €", 1_234_567.89),
        (PRICE, X, 'decimal = ","', "2,5", 2.5),
        (PRICE, X, 'thousands = " "', "1\u00a0234\u202f567", 1_234_567),
        (PRICE, X, 'thousands = "\'"', "1'234", 1_234),
        (PRICE, '{column = "x", decimal = ".", thousands = ",", currency = "$"}', EURO, "$1,000.5", 1000.5),
        (PRICE, '{template = "{y}{x}"}', "", "5", "column y and column x: 'Elm5' is not a number"),
        (PRICE, X, 'thousands = ","', "12,5", "column x: '12,5' is not a number"),
        (PRICE, X, 'thousands = ","', "1,2345", "column x: '1,2345' is not a number"),
        (PRICE, X, EURO, "1.5", "column x: '1.5' is not a number"),
        (PRICE, X, "", "call us", "column x: 'call us' is not a number"),
        (PRICE, X, "", "٣", "column x: '٣' is not a number"),
        (PRICE, X, "", "1_000", "column x: '1_000' is not a number"),
        (PRICE, X, "", "nan", "column x: 'nan' is not a number"),
        (PRICE, X, "", "1e999", "column x: '1e999' is out of range"),
        (PRICE, X, "", "9" * 400, f"column x: '{'9' * 400}' is out of range"),
        (
            PRICE,
            X,
            "",
            "1,000",
            "column x: '1,000' is not a number: if ',' groups digits, set thousands = \",\"",
        ),
        (
            PRICE,
            X,
            "",
            "$5",
            "column x: '$5' is not a number: if $ is a currency or unit, set currency = \"$\"",
        ),
        # Formulas
        (PRICE, '{formula = "{x} / 43560"}', US, "87,120", 2),
        (PRICE, '{formula = "floor({x})"}', "", "2.5", 2),
        (PRICE, '{formula = "ceil({x} % 1)"}', "", "2.5", 1),
        (PRICE, '{formula = "ceil({x} % 1)"}', "", "3", 0),
        (PRICE, '{formula = "({x} + {x}) * 2 - 1"}', "", "1", 3),
        (PRICE, '{formula = "max({x}, 10)"}', "", "1", 10),
        (PRICE, '{formula = "-{x}"}', "", "1", -1),
        (PRICE, '{formula = "{x}"}', "", "", None),
        (PRICE, '{formula = "1 / {x}"}', "", "0", "column x: '0' divides by zero"),
        (PRICE, '{formula = "{x}"}', "", "many", "column x: 'many' is not a number"),
        (
            PRICE,
            '{formula = "{x} * 1e300"}',
            "",
            "9" * 30,
            f"column x: '{'9' * 30}' has a result that is out of range",
        ),
        # Dates and times
        (DAY, X, "", "2026-01-02", "2026-01-02"),
        (DAY, '{column = "x", format = "%d.%m.%Y"}', "", "03.02.2026", "2026-02-03"),
        (DAY, '{column = "x", format = "%d.%m.%y"}', 'date_format = "%Y"', "22.09.24", "2024-09-22"),
        (DAY, X, 'date_format = "%m/%d/%Y"', "9/22/2024", "2024-09-22"),
        (DAY, X, 'date_format = ["%m/%d/%Y", "%Y%m%d"]', "20240922", "2024-09-22"),
        (DAY, X, 'date_format = ["%m/%d/%Y", "ISO"]', "2024-09-22", "2024-09-22"),
        (DAY, X, "", "03.02.2026", "column x: '03.02.2026' is not an ISO 8601 date"),
        (DAY, X, 'date_format = "%d/%m/%Y"', "9/22/24", "column x: '9/22/24' does not match the format %d/%m/%Y"),
        (TIME, X, NEW_YORK, "2024-07-01T12:00", "2024-07-01T12:00:00-04:00"),
        (TIME, X, NEW_YORK, "2024-01-01T12:00Z", "2024-01-01T12:00:00+00:00"),
        (
            TIME,
            X,
            'time_zone = "America/Denver"\ndate_time_format = "%m/%d/%Y %I:%M %p"',
            "01/02/2024 1:30 PM",
            "2024-01-02T13:30:00-07:00",
        ),
        ("OpenHouse", SESSIONS, "", "September-22-2024 01:30 PM", [{"Date": "2024-09-22", "StartTime": "13:30:00"}]),
        # Truth values, and maps
        ("PoolYN", X, "", "YES", True),
        ("PoolYN", X, "", "0", False),
        (
            "PoolYN",
            X,
            "",
            "H",
            "column x: 'H' is not one of true, false, yes, no, y, n, 1, 0: use a `map` for other texts",
        ),
        ("PoolYN", '{column = "x", map = {N = true}, default = false}', "", "H", False),
        ("PropertyType", '{column = "x", map = {H = "Condo"}}', "", "H", "Condo"),
        (CITY, '{column = "x", map = {a = "b"}, keep_unmapped = true}', "", "c", "c"),
        (CITY, '{column = "x", map = {h = "House"}}', "", "H", "column x: 'H' is not in the map"),
        # Fields of any type
        (ANY, X, "", "5", "5"),
        (ANY, '{column = "x", type = "integer"}', "", "5", 5),
        (ANY, '{column = "x", type = "boolean"}', "", "yes", True),
        # Texts, joined, replaced and split
        (CITY, X, "", "Elm", "Elm"),
        (CITY, X, 'trim = "\'*"', " 'Rye'* ", "Rye"),
        (CITY, X, 'empty = ["N/A", "NULL"]', "N/A", None),
        (CITY, '{template = "{x} {y} St"}', "", "5", "5 Elm St"),
        (CITY, '{template = "{y}{x}"}', "", "5", "Elm5"),
        (CITY, '{template = "{x} {z}"}', "", "5", None),
        (CITY, '{join = ["x", "y", "z"]}', "", "5", "5 Elm"),
        (CITY, '{join = ["y", "x"], separator = ", "}', "", "5", "Elm, 5"),
        (CITY, '{join = ["x", "z"]}', "", "", None),
        (CITY, '{column = "x", replace = {" " = "-", "/" = "_"}}', "", "a b/c", "a-b_c"),
        (
            "PropertyFeatures",
            FEATURES,
            "",
            "Pool; Dock;;",
            [{"PropertyFeatureName": "F", "PropertyFeatureValues": ["Pool", "Dock"]}],
        ),
        # Objects, and lists of them
        ("SharedPartnerData", '{attribute_1 = {column = "x"}}', "", "H", {"attribute_1": "H"}),
        ("SharedPartnerData", '{attribute_1 = {column = "x"}, attribute_2 = "constant"}', "", "", None),
        (
            "ListingImages",
            '[{FullURL = {template = "/{x}.jpg"}, IsMainListingImage = true}, {FullURL = {column = "z"}}]',
            "",
            "7",
            [{"FullURL": "/7.jpg", "IsMainListingImage": True}],
        ),
        (
            "ListingImages",
            '[{FullURL = {column = "x", split = "|"}, Title = {column = "y"}}]',
            "",
            "a|b",
            [{"Title": "Elm", "FullURL": "a"}, {"Title": "Elm", "FullURL": "b"}],
        ),
        ("ListingImages", '[{FullURL = {column = "x", split = "|"}, Title = "t"}]', "", "", None),
        (
            "ListingImages",
            '[{Width = {column = "x", split = ","}}]',
            "",
            "1,b",
            "column x: one value of '1,b' is not a number",
        ),
        (
            "PropertyFeatures",
            '[{PropertyFeatureName = "Kind", PropertyFeatureValues = ["a", {column = "x"}]}]',
            "",
            "H",
            [{"PropertyFeatureName": "Kind", "PropertyFeatureValues": ["a", "H"]}],
        ),
        ("PropertyFeatures", FEATURES, "", "", None),
    ],
)
def test_a_cell_becomes_what_its_field_and_its_map_declare(
    tmp_path: Path, field: str, declared: str, keys: str, text: str, value: object
) -> None:
    assert cell(tmp_path, declared, text, field, f"{keys}\n", y="Elm", z="") == value


@pytest.mark.parametrize(
    ("field", "declared", "said"),
    [
        *(
            (PRICE, f'{{formula = "{formula}"}}', r"(is not a formula: use \{column\}|has no column)")
            for formula in (
                *("{x} ** 9", "__import__({x})", "{x}.real", "{x} if 1 else 2"),
                *("'a' * {x}", "max({x})", "{x} +"),
            )
        ),
        (CITY, '{column = "x", split = ","}', "is not a list: remove `split`"),
    ],
)
def test_what_a_field_cannot_be_declared_as_is_refused(tmp_path: Path, field: str, declared: str, said: str) -> None:
    with pytest.raises(SourceError, match=rf"record\.{field}:? .*{said}"):
        cell(tmp_path, declared, "1", field)


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
