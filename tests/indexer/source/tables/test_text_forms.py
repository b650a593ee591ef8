"""Encodings and delimiters, declared or detected."""

from pathlib import Path

import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.source.tables.table_source import TableSource
from tests.indexer.source.tables.table_folder import IDENTIFIER, LISTINGS, lines_of, records_of, write_map

ROWS = [("1", "Cañon City", "Une résidence à côté du café"), ("2", "San José", "piñata “quoted” dash")]


def write(folder: Path, data: bytes, head: str = "") -> str:
    (folder / "table.csv").write_bytes(data)
    fields = 'City = {column = "city"}\nPublicRemarks = {column = "remarks"}\n'
    return write_map(folder, f'{LISTINGS}file = "table.csv"\n{head}{IDENTIFIER}{fields}')


def table(delimiter: str = ",") -> str:
    return "\r\n".join(delimiter.join(row) for row in [("id", "city", "remarks"), *ROWS])


def read(name: str) -> list[tuple[str, str, str]]:
    return [(one["PlatformListingId"], one["City"], one["PublicRemarks"]) for one in records_of(name)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_delimiter_and_encoding_are_detected(tmp_path: Path, delimiter: str, encoding: str) -> None:
    name = write(tmp_path, table(delimiter).encode(encoding))
    assert read(name) == ROWS
    with open_source(name) as source:
        assert isinstance(source, TableSource)
        notes = " ".join(source.notes)
    assert ("delimiter" in notes) == (delimiter != ",")
    assert ("encoding" in notes) == (encoding not in {"utf-8", "utf-8-sig"})
    assert ("as in Cañon, résidence, à" in notes) == (encoding == "cp1252")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "mac-roman", "utf-8", "latin-1"])
def test_a_declared_encoding_is_used(tmp_path: Path, encoding: str) -> None:
    data = table(";").replace("“quoted” ", "").encode(encoding)
    expected = [tuple(text.replace("“quoted” ", "") for text in row) for row in ROWS]
    assert read(write(tmp_path, data, f'encoding = "{encoding}"\ndelimiter = ";"\n')) == expected


def test_an_encoding_beyond_the_first_block_is_detected(tmp_path: Path) -> None:
    rows = "".join(f"{number},Rye,{'x' * 100}\n" for number in range(30_000))
    data = f"id,city,remarks\n{rows}x,San José,end\n".encode("cp1252")
    assert read(write(tmp_path, data))[-1] == ("x", "San José", "end")


def test_bytes_that_the_encoding_lacks_make_a_bad_row(tmp_path: Path) -> None:
    lines = lines_of(write(tmp_path, b"id,city,remarks\n1,\x81,\n2,b,\n", 'encoding = "cp1252"\n'))
    assert [isinstance(line, RejectedLine) for line in lines] == [True, False]
    assert lines[0].error.reason == "is not valid CP1252"


def test_a_damaged_utf_16_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    name = write(tmp_path, table().encode("utf-16")[:-1])
    with pytest.raises(SourceError, match=r"table\.csv cannot be read after line \d"):
        lines_of(name)


def test_without_quotes_quotation_marks_are_text(tmp_path: Path) -> None:
    name = write(tmp_path, b'id,city,remarks\n1,5" pipe,"as is\n', 'quote = ""\n')
    assert read(name) == [("1", '5" pipe', '"as is')]
