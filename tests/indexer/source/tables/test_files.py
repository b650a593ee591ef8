"""A column map over files, patterns, folders and archives, and several maps in one source."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.documents.companies import declared_companies
from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES
from tests.indexer.source.packing import PACKERS
from tests.indexer.source.tables.table_folder import (
    HEAD,
    IDENTIFIER,
    LISTINGS,
    identifiers_of,
    lines_of,
    records_of,
    write_map,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three tables of listings, one of which has its columns in another order."""
    (tmp_path / "listings").mkdir()
    (tmp_path / "listings" / "a.csv").write_text("id,price\n1,10\n2,20\n")
    (tmp_path / "listings" / "b.csv").write_text("price,id\n30,3\n")
    (tmp_path / "listings" / "c.csv.gz").write_bytes(gzip.compress(b"id,price\n4,40\n"))
    (tmp_path / "listings" / "notes.md").write_text("no table")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "identifiers"),
    [
        ('files = ["listings/*.csv"]', "123"),
        ('files = ["listings/b.csv", "listings/*.csv"]', "312"),
        ('files = ["listings"]', "1234"),
        ('files = ["**/*.csv*"]', "1234"),
        ('file = "listings/a.csv"', "12"),
    ],
)
def test_files_may_be_names_patterns_and_folders(folder: Path, files: str, identifiers: str) -> None:
    name = write_map(folder, f'{LISTINGS}{files}\n{IDENTIFIER}ListPrice = {{column = "price"}}\n')
    assert [(one["PlatformListingId"], one["ListPrice"]) for one in records_of(name)] == [
        (one, 10 * int(one)) for one in identifiers
    ]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ('files = ["listings/*.txt"]', r"map\.toml: files is 'listings/\*\.txt', but no file in .* matches it"),
        ('files = ["none"]', "files is 'none', but .*none is not a file"),
        ("files = []", "Give either `file` or `files`"),
        ('file = "a"\nfiles = ["b"]', "Give either `file` or `files`"),
        ('files = ["empty"]', r"has no files that end in \.csv, \.tsv"),
        ('files = ["/etc/*"]', "no file in .* matches it"),
    ],
)
def test_files_that_are_missing_are_named(folder: Path, files: str, said: str) -> None:
    (folder / "empty").mkdir()
    name = write_map(folder, f"{LISTINGS}{files}\n{IDENTIFIER}")
    with pytest.raises(SourceError, match=said), open_source(name):
        pass


def test_a_missing_column_is_found_in_the_last_of_many_files(folder: Path) -> None:
    (folder / "listings" / "z.csv").write_text("id,prize\n9,90\n")
    name = write_map(folder, f'{LISTINGS}files = ["listings"]\n{IDENTIFIER}ListPrice = {{column = "price"}}\n')
    said = r"listings/z\.csv has no column 'price' among: id, prize\. Did you mean 'prize'\?"
    with pytest.raises(SourceError, match=said), open_source(name):
        pass


def test_lines_have_their_own_numbers_and_increasing_positions(folder: Path) -> None:
    (folder / "listings" / "b.csv").write_text("id,price\n3,30\nbad\n")
    lines = lines_of(write_map(folder, f'{LISTINGS}files = ["listings"]\n{IDENTIFIER}'))
    places = [(line.line if isinstance(line, RejectedLine) else line)[:2] for line in lines]
    assert places == [
        (f"listings/{file}", n) for file, n in [("a.csv", 2), ("a.csv", 3), ("b.csv", 2), ("b.csv", 3), ("c.csv.gz", 2)]
    ]
    positions = [line.position for line in lines]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("pack", PACKERS.values())
def test_the_tables_of_an_archive_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("part/a.csv", pack(b"id\n1\n"))
        archive.writestr("b.csv", pack(b"id\n2\n"))
        archive.writestr("__MACOSX/._b.csv", b"\0\1")
    lines = lines_of(write_map(tmp_path, f'{LISTINGS}file = "export.zip"\n{IDENTIFIER}'))
    assert [line.file for line in lines] == ["export.zip/part/a.csv", "export.zip/b.csv"]


def test_archives_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    name = write_map(tmp_path, f'{LISTINGS}file = "export.zip"\n{IDENTIFIER}')
    for member, method, said in (
        ("a.csv", zipfile.ZIP_LZMA, "is not packed by deflate"),
        ("xl/workbook.xml", zipfile.ZIP_DEFLATED, "cannot be read as an Excel workbook"),
        (".hidden", zipfile.ZIP_DEFLATED, "has 0 files"),
    ):
        with zipfile.ZipFile(tmp_path / "export.zip", "w", method) as archive:
            archive.writestr(member, b"id\n1\n" * 99)
        with pytest.raises(SourceError, match=said), open_source(name):
            pass
    damaged = (tmp_path / "export.zip").read_bytes()
    (tmp_path / "export.zip").write_bytes(damaged[:-30])
    with pytest.raises(SourceError, match="is not a valid zip archive"), open_source(name):
        pass


def test_one_map_may_have_several_resources(folder: Path) -> None:
    (folder / "agents.csv").write_text("agent_uuid,first_name\nu1,Ann\n")
    (folder / "offices.csv").write_text("No;Name\n7;Main\n")
    name = write_map(
        folder,
        """
        updated_at = "2026-01-01"
        [company]
        platform_company_id = "own"
        name = "Own"
        [offices]
        file = "offices.csv"
        delimiter = ";"
        record = {platform_office_id = {template = "o-{No}"}, name = {column = "Name"}}
        [agents]
        file = "agents.csv"
        pass_through = true
        [listings]
        files = ["listings/*.csv"]
        [listings.record]
        PlatformListingId = {column = "id"}
        """,
    )
    with open_source(name) as source:
        assert [resource for resource in RESOURCES if source.has(resource)] == [COMPANY, OFFICE, AGENT, LISTING]
        with source.changes() as stream:
            assert len(list(stream.lines)) == 6
            assert stream.position() == stream.total
    assert records_of(name, OFFICE) == [{"platform_office_id": "o-7", "name": "Main"}]
    assert records_of(name, AGENT) == [{"agent_uuid": "u1", "first_name": "Ann"}]
    assert identifiers_of(name) == ["1", "2", "3"]


def test_several_maps_in_a_folder_are_one_source(folder: Path) -> None:
    (folder / "more.csv").write_text("key|price\n5|50\n")
    write_map(folder, f'{LISTINGS}files = ["listings"]\n{IDENTIFIER}', "one.toml")
    other = IDENTIFIER.replace("id", "key")
    write_map(folder, f'{LISTINGS}file = "more.csv"\n{other}', "two.toml")
    assert identifiers_of(str(folder)) == ["1", "2", "3", "4", "5"]
    (folder / "listings.ndjson").write_text("")
    with pytest.raises(SourceError, match=r"has column maps and listings\.ndjson"), open_source(str(folder)):
        pass


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1", r"map\.toml is not a valid column map: give `resource`, or a table such as \[listings\]\."),
        (f"{HEAD}delimeter = ';'\n[listings]", "unknown field `delimeter`. Did you mean `delimiter`?"),
        (f'{HEAD}[listings]\nfile = "a"', r"map\.toml \[listings\] is not a valid column map: .* `record`"),
        ('resource = "listing"', "Did you mean `listings` or `sold_listings`?"),
        (f'{LISTINGS}file = "a"\n{IDENTIFIER}listprice = 1', "Did you mean `ListPrice`?"),
        (f'{LISTINGS}file = "a"\n{IDENTIFIER}City = {{colum = "x"}}', "Did you mean `column`?"),
        (f'{LISTINGS}file = "a"\ndelimiter = ";;"\n{IDENTIFIER}', "`delimiter` is ';;': give one character"),
        (f'{LISTINGS}file = "a"\nencoding = "utf8x"\n{IDENTIFIER}', "`encoding` is 'utf8x': use a name such as"),
        (f'{LISTINGS}file = "a"\ntime_zone = "Mars"\n{IDENTIFIER}', "`time_zone` is 'Mars': use a name such as"),
        (f'{LISTINGS}file = "a"\nthousands = "."\n{IDENTIFIER}', "`thousands` is '.': give one character other than"),
    ],
)
def test_a_wrong_key_is_named_with_the_nearest_known_one(tmp_path: Path, text: str, said: str) -> None:
    name = write_map(tmp_path, text)
    with pytest.raises(SourceError, match=said.replace("?", r"\?")), open_source(name):
        pass


@pytest.mark.parametrize("column", ["", "  "])
def test_a_blank_column_cannot_be_read_and_is_ignored(tmp_path: Path, column: str) -> None:
    (tmp_path / "table.csv").write_text(f"id,{column},price,\n1,x,2,y\n")
    head = f'{LISTINGS}file = "table.csv"\n{IDENTIFIER}'
    assert identifiers_of(write_map(tmp_path, head)) == ["1"]
    name = write_map(tmp_path, f'{head}City = {{column = "{column.strip()}"}}')
    with pytest.raises(SourceError, match="`column` is empty: give the name of a column"), open_source(name):
        pass


def test_a_map_declares_the_companies_that_the_source_covers(folder: Path) -> None:
    head = f'{LISTINGS}companies = ["acme", "17"]\nfile = "listings/a.csv"\n'
    with open_source(write_map(folder, f"{head}{IDENTIFIER}")) as source:
        assert declared_companies(source) == ("acme", "17")
    with open_source(write_map(folder, f'{LISTINGS}file = "listings/a.csv"\n{IDENTIFIER}')) as source:
        assert declared_companies(source) == ()


def test_other_toml_files_in_a_folder_are_not_column_maps(folder: Path) -> None:
    write_map(folder, f'{LISTINGS}file = "listings/a.csv"\n{IDENTIFIER}')
    (folder / "pyproject.toml").write_text('[project]\nname = "loader"\n')
    assert identifiers_of(str(folder)) == ["1", "2"]
    (folder / "map.toml").unlink()
    (folder / "listings.ndjson").write_bytes(b"")
    assert lines_of(str(folder)) == []
