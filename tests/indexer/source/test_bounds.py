"""Lines without end and decompression bombs: what is held in memory has a bound, and the lines around them are read."""

import io
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer import RejectedLine, SourceError, open_source
from mappings import TEAM
from tests.indexer.source.packing import PACKERS, zipped

BOMB_BYTES = 48 << 20
LIMIT = 100
MARK = b"\xef\xbb\xbf"
COLUMN_MAP = """
resource = "teams"
file = "teams.csv"
updated_at = "2026-01-01"
platform_company_id = "acme"
[record]
uuid = {column = "id"}
name = {column = "name"}
"""


def numbers(path: Path, limit: int) -> tuple[list[int], list[int], list[str]]:
    """Return the numbers of the good lines and of the others, and the reasons of these."""
    with open_source(str(path), max_record_bytes=limit) as source, source.open(TEAM) as reading:
        items = list(reading.lines)
    faults = [item for item in items if isinstance(item, RejectedLine)]
    good = [item.number for item in items if not isinstance(item, RejectedLine)]
    return good, [fault.number for fault in faults], [fault.error.reason for fault in faults]


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_line_beyond_the_limit_is_refused_and_the_next_one_read(
    tmp_path: Path, suffix: str, end: bytes, is_folder: bool
) -> None:
    lengths = [LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 2, LIMIT + 3, 2 * LIMIT + 4, 300_000, LIMIT]
    lines = [b'{"x":"%b"}' % (b"y" * (length - 8)) for length in lengths]
    path = tmp_path / f"teams.ndjson{suffix}"
    path.write_bytes(PACKERS[suffix](end.join(lines)))
    good, bad, reasons = numbers(tmp_path if is_folder else path, LIMIT)
    assert (good, bad) == ([1, 2, 8], [3, 4, 5, 6, 7])
    assert set(reasons) == {"has more than 100 bytes: shorten the record, or raise BROKERAGE_MAX_RECORD_BYTES"}


def test_blanks_beyond_the_limit_are_no_blank_line(tmp_path: Path) -> None:
    (tmp_path / "teams.ndjson").write_bytes(b" " * LIMIT + b"\n" + b" " * (LIMIT + 9) + b"{}\n{}")
    assert numbers(tmp_path, LIMIT)[:2] == ([3], [2])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("pack", [*PACKERS.values(), zipped])
def test_a_table_bomb_takes_a_bounded_amount_of_memory(
    tmp_path: Path, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "teams.csv").write_bytes(pack(("id,name\nt1," + "é" * BOMB_BYTES + "\nt2,name\n").encode(encoding)))
    (tmp_path / "teams.toml").write_text(COLUMN_MAP)
    assert_bounded(tmp_path / "teams.toml")


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_bomb_takes_a_bounded_amount_of_memory(tmp_path: Path, suffix: str) -> None:
    line = b'{"record":{"uuid":"t1"},"x":"' + b" " * BOMB_BYTES + b'"}\n{}\n'
    (tmp_path / f"teams.ndjson{suffix}").write_bytes(PACKERS[suffix](line))
    assert_bounded(tmp_path / f"teams.ndjson{suffix}")


def assert_bounded(path: Path) -> None:
    """Fail unless a source of a bomb and a good line is read in a part of the memory that the bomb would take."""
    tracemalloc.start()
    try:
        good, bad, _ = numbers(path, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(good), len(bad)) == (1, 1)
    assert peak < BOMB_BYTES / 2


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kind", ["folder", "file", "standard input"])
def test_a_byte_order_mark_takes_no_record_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, kind: str
) -> None:
    # The second mark is that of a file that was appended.
    data = PACKERS[suffix](MARK + b'{"n": 1}\n{"n": 2}\n' + MARK + b'{"n": 3}\n' + MARK + b"\n" + MARK)
    (tmp_path / f"teams.ndjson{suffix}").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    name = {"folder": str(tmp_path), "file": str(tmp_path / f"teams.ndjson{suffix}"), "standard input": "-"}[kind]
    with open_source(name, resource=TEAM) as source, source.open(TEAM) as reading:
        assert [line.data.strip() for line in reading.accepted_lines] == [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}']


def test_the_byte_order_mark_of_a_table_is_no_part_of_its_header(tmp_path: Path) -> None:
    (tmp_path / "teams.csv").write_bytes(MARK + b"id,name\nt1,first\n")
    (tmp_path / "teams.toml").write_text(COLUMN_MAP)
    with open_source(str(tmp_path / "teams.toml")) as source, source.open(TEAM) as reading:
        assert [b'"uuid":"t1"' in line.data for line in reading.accepted_lines] == [True]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "teams.ndjson").write_bytes('{"n": 1}\n'.encode(encoding))
    with (
        pytest.raises(SourceError, match=r"teams\.ndjson is UTF-16: convert it to UTF-8\."),
        open_source(str(tmp_path)) as source,
        source.open(TEAM) as reading,
    ):
        list(reading.lines)
