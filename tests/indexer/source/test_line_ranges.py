"""Ranges of a file, put together, are the lines of the file, whatever it contains and wherever reading begins."""

import gzip
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer import IndexerSettings, SourceError
from indexer.load.processes import FileRange, FileRanges, LineBatches, divisible_file, range_size
from indexer.source.files import open_line_file
from indexer.source.lines import RejectedLine, SourceLine
from indexer.source.opener import FolderSource
from mappings import TEAM
from tests.records import envelope, write

LONGEST = 12
lines = st.sampled_from([b"", b"  ", b"a", b"ab\r", b"\xef\xbb\xbfmarked", b"x" * LONGEST, b"y" * 40, b"z" * 200_000])


def ranges_of(path: Path, size: int, after: int = 0) -> list[FileRange]:
    with path.open("rb") as raw:
        reading = FileRanges(path, raw, size, after)
        return list(iter(reading.read, None))


def read(ranges: list[FileRange]) -> list[SourceLine | RejectedLine]:
    return [item for part in ranges for item in part.items(TEAM, LONGEST)]


def whole(path: Path) -> list[SourceLine | RejectedLine]:
    """Return the lines of a file that is read in one pass."""
    with open_line_file(path, LONGEST, TEAM) as stream:
        return list(stream.lines)


def shown(items: list[SourceLine | RejectedLine]) -> list[tuple[int, bytes, str]]:
    """Return what can be compared: the errors of rejected lines as text."""
    return [
        (item.number, item.data, str(item.error) if isinstance(item, RejectedLine) else item.file) for item in items
    ]


@given(content=st.lists(lines, max_size=30), size=st.integers(1, 100), after=st.integers(0, 31), ends=st.booleans())
@example(content=[b"a"], size=1, after=0, ends=False)
@example(content=[b"", b"", b""], size=1, after=0, ends=True)
def test_ranges_are_the_lines_of_a_file(content: list[bytes], size: int, after: int, *, ends: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "teams.ndjson"
        path.write_bytes(b"\n".join(content) + (b"\n" if ends else b""))
        ranges = ranges_of(path, size, after)
        assert shown(read(ranges)) == shown([item for item in whole(path) if item.number > after])
        assert all(one.position == two.start and one.last_line == two.before for one, two in pairwise(ranges))
        assert not ranges or ranges[-1].position == path.stat().st_size


def test_a_file_that_becomes_shorter_is_not_taken_for_a_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "teams.ndjson"
    path.write_bytes(b"a\n" * 10)
    ranges = ranges_of(path, 4)
    path.write_bytes(b"a\n" * 7)
    assert len(read(ranges[:3])) == 6
    with pytest.raises(SourceError, match="has become shorter"):
        read(ranges[3:4])


def test_only_a_plain_file_of_one_resource_is_divided(tmp_path: Path) -> None:
    folder = write(tmp_path / "source", {TEAM: [envelope(TEAM)]})
    source, path = FolderSource(folder), folder / "teams.ndjson"
    assert divisible_file(source, TEAM) == path
    assert divisible_file(object(), TEAM) is None
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert divisible_file(source, TEAM) is None


def test_other_lines_are_read_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "teams.ndjson"
    path.write_bytes(b"a\n" * 10 + b"\n" + b"b\n")
    with open_line_file(path, LONGEST, TEAM) as stream:
        batches = list(iter(LineBatches(stream, IndexerSettings(bulk_documents=2)).read, None))
    assert [batch.last_line for batch in batches] == [8, 12]
    assert [item for batch in batches for item in batch.items(TEAM, LONGEST)] == whole(path)


def test_each_process_reads_several_ranges_of_a_few_megabytes_at_most() -> None:
    assert range_size(10**12, 2) == range_size(10**9, 2) == 8_000_000
    assert range_size(64_000_000, 4) == 1_000_000
    assert range_size(1_000, 4) == 32_000
