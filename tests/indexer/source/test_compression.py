"""Compressed streams are recognized by their first bytes, read as they arrive, and never past damage."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer import SourceError
from indexer.source.files import decompressed, open_line_file
from indexer.source.lines import SourceLine
from tests.indexer.source.packing import PACKERS

TEXT = b"".join(b'{"line": %d}\n' % number for number in range(5000))
# What parallel compressors write: a frame that says how long the next one is, which holds no data.
SKIPPED = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"size"
PACKED_IN_PARALLEL: Callable[[bytes], bytes] = lambda data: SKIPPED + PACKERS[".zst"](data)  # noqa: E731
every_packer = pytest.mark.parametrize(
    "pack", [*PACKERS.values(), PACKED_IN_PARALLEL], ids=["plain", "gzip", "zstd", "zstd behind a frame to skip"]
)


class Trickle(io.RawIOBase):
    """A stream that gives one byte at a time, as slow pipes do."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        byte, self._rest = self._rest[:1], self._rest[1:]
        memoryview(buffer)[: len(byte)] = byte
        return len(byte)


@every_packer
def test_the_first_bytes_determine_the_compression(pack: Callable[[bytes], bytes]) -> None:
    with decompressed(io.BytesIO(packed := pack(TEXT))) as stream:
        assert stream.reader.read() == TEXT
        assert stream.position() == len(packed)


@every_packer
def test_a_slow_stream_comes_to_the_same(pack: Callable[[bytes], bytes]) -> None:
    with decompressed(io.BufferedReader(Trickle(pack(TEXT)))) as stream:
        assert stream.reader.read() == TEXT


@every_packer
def test_parts_behind_each_other_are_read_as_one(pack: Callable[[bytes], bytes]) -> None:
    with decompressed(io.BytesIO(pack(TEXT[:700]) + pack(b"") + pack(TEXT[700:]))) as stream:
        assert stream.reader.read() == TEXT


@pytest.mark.parametrize("data", [b"", b"{", b"\x1f", b"(\xb5/", b"P*M\x19"])
def test_what_is_too_short_or_only_like_a_compressed_stream_is_plain(data: bytes) -> None:
    with decompressed(io.BytesIO(data)) as stream:
        assert stream.reader.read() == data


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("cut", [5, 300, -1])
def test_a_cut_stream_is_an_error_that_names_file_and_line(tmp_path: Path, suffix: str, cut: int) -> None:
    path = tmp_path / "teams.ndjson"
    path.write_bytes(PACKERS[suffix](TEXT[:130]) + PACKERS[suffix](TEXT)[:cut])
    lines: list[object] = []
    with (
        pytest.raises(SourceError, match=r"teams\.ndjson cannot be read after line \d+: it ends inside"),
        open_line_file(path) as reading,
    ):
        lines.extend(reading.lines)
    assert lines[:10] == [SourceLine("teams.ndjson", n + 1, b'{"line": %d}\n' % n) for n in range(10)]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_stream_with_a_wrong_byte_is_an_error(tmp_path: Path, suffix: str) -> None:
    packed = bytearray(PACKERS[suffix](TEXT))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "teams.ndjson").write_bytes(packed)
    with (
        pytest.raises(SourceError, match=r"teams\.ndjson cannot be read after line \d+: "),
        open_line_file(tmp_path / "teams.ndjson") as reading,
    ):
        list(reading.lines)
