"""What a draft takes for the header, the end and the records of a table, and what it says that it does not read."""

import gzip
import tomllib
from pathlib import Path
from typing import Any

import pytest

from indexer.drafting.map_draft import MapDraft, draft_map
from tests.indexer.source.tables.table_folder import lines_of, records_of, write_map

HEADER = "MLS#,Status,List Price,City\n"
ROWS = "P1,Active,5,Rye\nP2,Sold,6,Rye\n"


def drafted(folder: Path, **files: str) -> tuple[MapDraft, dict[str, Any]]:
    """Return the draft of some files of listings, and its table."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    draft = draft_map([str(folder / f"{name}.csv") for name in files], folder, company="acme")
    table = tomllib.loads(draft.text)["listings"]
    return draft, table


@pytest.mark.parametrize(
    ("titles", "header", "line"),
    [
        ("", HEADER, 1),
        ("Listing report\n\n,,,\n", HEADER, 4),
        ("Prepared for:,Harbor Lane,On:,\n", HEADER, 2),
        ('"Report, of\ntwo lines"\n', HEADER, 3),
        ("Active listings of Rye\n", "Nummer,Zustand,Preis,Ort\n", 2),
        ("", "Nummer,Zustand,City,Status\n", 1),
    ],
)
def test_the_header_is_the_first_row_with_names_of_columns(tmp_path: Path, titles: str, header: str, line: int) -> None:
    draft, _ = drafted(tmp_path, listings=f"{titles}{header}{ROWS}")
    [table] = draft.tables
    assert (table.columns, len(table.rows)) == (header.strip().split(","), 2)
    assert (f"# header_at = {line}" in draft.text) is (line > 1)
    assert any(f"listings.csv: the header is line {line}; " in note for note in draft.notes) is (line > 1)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_titles_do_not_hide_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    text = f"Report, for, Harbor, Lane\n{HEADER}{ROWS}".replace(",", delimiter).replace(delimiter, ",", 3)
    draft, table = drafted(tmp_path, listings=text)
    assert (table["delimiter"], [one.column for one in draft.tables[0].guesses]) == (
        delimiter,
        HEADER.strip().split(","),
    )


@pytest.mark.parametrize(
    ("last", "footer"),
    [
        ("Total: 2 listings", "^Total:"),
        ("Totals:,2,11,", "^Totals:"),
        ("Grand Total,,11,", "^Grand Total"),
        ("2 records", "^[0-9,.]+ records"),
        ("Number of listings: 2", "^Number of listings:"),
        (",,,*** End of report ***", r"^\\*\\*\\* End of"),
        ("Totalview,Active,5,Rye", None),
        ("Total,Active,5,Rye", None),
    ],
)
def test_a_last_row_of_totals_is_the_footer(tmp_path: Path, last: str, footer: str | None) -> None:
    """Also of a file whose end is beyond the sample."""
    for rows in (ROWS, "P1,Active,5,Rye\n" * 3_000):
        draft, table = drafted(tmp_path, listings=f"{HEADER}{rows}{last}\n")
        expected = None if footer is None else footer.replace("\\\\", "\\")
        assert table.get("footer") == expected
        assert (footer is not None) is any("its footer says" in note for note in draft.notes)
        lines_of(write_map(tmp_path, draft.text))


def test_a_footer_that_some_files_lack_is_left_out_by_its_pattern(tmp_path: Path) -> None:
    draft, table = drafted(tmp_path, a=f"{HEADER}{ROWS}", b=f"{HEADER}P3,Active,5,Rye\nTotal: 1\n")
    assert "footer" not in table
    assert table["skip_if"] == {"MLS#": [{"matches": "^Total:"}]}
    assert len(records_of(write_map(tmp_path, draft.text))) == 3


def test_rows_with_a_sentence_are_left_out_and_do_not_disturb_guesses(tmp_path: Path) -> None:
    note = '"In accordance with local rules, of 11/03/2026, some are missing",,,\n'
    draft, table = drafted(tmp_path, listings=f"{HEADER}{note}{ROWS}Generated on 3 November by us\n")
    assert table["skip_if"] == {
        "MLS#": [{"matches": "^In accordance with local"}, {"matches": "^Generated on [0-9,.]+ November"}]
    }
    assert table["record"]["PlatformListingId"] == {"column": "MLS#"}
    assert [one["City"] for one in records_of(write_map(tmp_path, draft.text))] == ["Rye", "Rye"]


def test_columns_of_one_name_are_noted_and_can_be_chosen(tmp_path: Path) -> None:
    draft, table = drafted(tmp_path, listings="MLS#,List Price,List Price,,\nP1,5,6,,\n")
    assert [*draft.notes] == [
        "listings.csv: 2 columns are named 'List Price': choose one of List Price (1), List Price (2)",
        "listings.csv: 2 columns without a heading cannot be read: give them one",
    ]
    assert "ListPrice" not in table["record"]
    chosen = draft.text.replace("# ListPrice = ", "ListPrice = ").replace("List Price (1)", "List Price (2)")
    [record] = records_of(write_map(tmp_path, chosen))
    assert record["ListPrice"] == 6


def test_what_is_not_read_in_a_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "older").mkdir(parents=True)
    (folder / "listings.csv.gz").write_bytes(gzip.compress(f"{HEADER}{ROWS}".encode()))
    for name in ("notes.pdf", "map.toml", ".hidden"):
        (folder / name).write_text("")
    draft = draft_map([str(folder)], tmp_path, company="acme")
    assert [*draft.notes] == [
        f"{folder}/{name} is not read: name it as well if it has records" for name in ("notes.pdf", "older/")
    ]


@pytest.mark.parametrize(
    ("column", "good", "bad", "field", "declared"),
    [
        ("Year Built", "1,900", "c.1900", "YearBuilt", {}),
        ("List Date", "1/31/2026", "soon", "ListingContractDate", {"format": "%m/%d/%Y"}),
        ("List Price", "$5,000", "call", "ListPrice", {}),
    ],
)
def test_a_column_with_few_unreadable_cells_may_have_empty_ones(
    tmp_path: Path, column: str, good: str, bad: str, field: str, declared: dict[str, str]
) -> None:
    def text(misfits: int) -> str:
        rows = [good] * (40 - misfits) + [bad] * misfits
        return f"MLS#,{column}\n" + "".join(f'{number},"{cell}"\n' for number, cell in enumerate(rows))

    draft, table = drafted(tmp_path, listings=text(3))
    assert table["record"][field] == {"column": column, **declared, "on_error": "empty"}
    assert f"3 cells such as {bad!r} cannot be read: such cells become empty" in draft.text
    assert sum(field in one for one in records_of(write_map(tmp_path, draft.text))) == 37
    assert field not in drafted(tmp_path, listings=text(30))[1]["record"]


def test_an_identifier_or_a_time_is_never_empty_because_it_is_unreadable(tmp_path: Path) -> None:
    rows = "".join(f"{number},{'soon' if number == 3 else '2026-01-31'}\n" for number in range(40))
    draft, table = drafted(tmp_path, listings=f"MLS#,Last Modified\n{rows}")
    assert table["updated_at"] == "on change"
    assert "on_error" not in draft.text
