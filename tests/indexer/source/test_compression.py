"""Compressed streams are recognized by their first bytes, read as they arrive, and never past damage."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from indexer import SourceError
from indexer.source.files import decompressed, open_line_file
from indexer.source.lines import SourceLine

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TEXT = b"".join(b'{"line": %d}\n' % number for number in range(5000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    # What parallel compressors write: a frame that says how long the next one is, which holds no data.
    "zstd behind a frame to skip": lambda data: (
        b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"size" + zstandard.ZstdCompressor().compress(data)
    ),
}


class Trickle(io.RawIOBase):
    """A stream that gives one byte at a time, as slow pipes do."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        byte, self._rest = self._rest[:1], self._rest[1:]
        memoryview(buffer)[: len(byte)] = byte
        return len(byte)


@pytest.mark.parametrize("packer", PACKERS)
def test_the_first_bytes_determine_the_compression(packer: str) -> None:
    packed = PACKERS[packer](TEXT)
    with decompressed(io.BytesIO(packed)) as stream:
        assert stream.reader.read() == TEXT
        assert stream.position() == len(packed)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_slow_stream_comes_to_the_same(packer: str) -> None:
    with decompressed(io.BufferedReader(Trickle(PACKERS[packer](TEXT)))) as stream:
        assert stream.reader.read() == TEXT


@pytest.mark.parametrize("packer", PACKERS)
def test_parts_behind_each_other_are_read_as_one(packer: str) -> None:
    pack = PACKERS[packer]
    with decompressed(io.BytesIO(pack(TEXT[:700]) + pack(b"") + pack(TEXT[700:]))) as stream:
        assert stream.reader.read() == TEXT


@pytest.mark.parametrize("data", [b"", b"{", b"\x1f", b"(\xb5/", b"P*M\x19"])
def test_what_is_too_short_or_only_like_a_compressed_stream_is_plain(data: bytes) -> None:
    with decompressed(io.BytesIO(data)) as stream:
        assert stream.reader.read() == data


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
@pytest.mark.parametrize("cut", [5, 300, -1])
def test_a_cut_stream_is_an_error_that_names_file_and_line(tmp_path: Path, packer: str, cut: int) -> None:
    path = tmp_path / "teams.ndjson"
    path.write_bytes(PACKERS[packer](TEXT[:130]) + PACKERS[packer](TEXT)[:cut])
    lines: list[object] = []
    with (
        pytest.raises(SourceError, match=r"teams\.ndjson cannot be read after line \d+: it ends inside"),
        open_line_file(path) as reading,
    ):
        lines.extend(reading.lines)
    assert lines[:10] == [SourceLine("teams.ndjson", n + 1, b'{"line": %d}\n' % n) for n in range(10)]


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress], ids=["gzip", "zstd"]
)
def test_a_stream_with_a_wrong_byte_is_an_error(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = bytearray(pack(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "teams.ndjson").write_bytes(packed)
    with (
        pytest.raises(SourceError, match=r"teams\.ndjson cannot be read after line \d+: "),
        open_line_file(tmp_path / "teams.ndjson") as reading,
    ):
        list(reading.lines)
