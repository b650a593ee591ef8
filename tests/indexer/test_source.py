"""Source folders: plain and compressed files, absent ones, damaged ones."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import orjson
import pytest
import zstandard

from indexer import Directory, SourceError, Stage
from mappings import COMPANY, TEAM
from tests.records import envelope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.indexer.conftest import Bench

PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("suffix", PACKERS)
async def test_a_compressed_source_is_read(bench: Bench, suffix: str) -> None:
    bench.folder.mkdir()
    lines = [
        orjson.dumps(envelope(COMPANY, {"platform_company_id": f"c{n}", "numeric_id": str(n)})) for n in range(700)
    ]
    # Two frames behind each other, as a source that is appended to has them.
    pack = PACKERS[suffix]
    packed = pack(b"\n".join(lines[:300]) + b"\n") + pack(b"\n".join(lines[300:]))
    (bench.folder / f"companies.ndjson{suffix}").write_bytes(packed)
    summary = await bench.build_folder()
    assert summary.of("companies").accepted == 700
    assert summary.of("companies").bytes_read == len(packed)


async def test_a_resource_that_the_source_lacks_is_left_alone_and_said_to_be_absent(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM)], COMPANY: [envelope(COMPANY)]})
    (bench.folder / "teams.ndjson").unlink()
    summary = await bench.build_folder([COMPANY, TEAM])
    assert summary.of("teams").stage is Stage.ABSENT
    assert await bench.live(TEAM) == "teams-v0001"
    assert await bench.live(COMPANY) == "companies-v0002"


async def test_a_file_that_is_there_plain_and_compressed_is_an_error(bench: Bench) -> None:
    bench.folder.mkdir()
    (bench.folder / "teams.ndjson.gz").touch()
    with pytest.raises(SourceError, match=r"teams\.ndjson and teams\.ndjson\.gz are both there"):
        await bench.build({TEAM: [envelope(TEAM)]})
    assert await bench.indices() == []


@pytest.mark.parametrize("suffix", PACKERS)
async def test_a_compressed_file_that_was_cut_ends_the_build_before_the_swap(bench: Bench, suffix: str) -> None:
    await bench.build({TEAM: [envelope(TEAM)]})
    (bench.folder / "teams.ndjson").unlink()
    lines = [orjson.dumps(envelope(TEAM, {"uuid": f"t{n}"})) for n in range(2000)]
    whole = PACKERS[suffix](b"\n".join(lines[:5])) + PACKERS[suffix](b"\n".join(lines))
    (bench.folder / f"teams.ndjson{suffix}").write_bytes(whole[:-20])
    with pytest.raises(SourceError, match=rf"teams\.ndjson{suffix} cannot be read behind line \d+: "):
        await bench.build_folder([TEAM])
    assert await bench.live(TEAM) == "teams-v0001"
    assert await bench.indices() == ["teams-v0001"]


def test_a_source_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a folder"):
        Directory(tmp_path / "nowhere")


async def test_a_source_without_any_file_is_an_error(bench: Bench) -> None:
    bench.folder.mkdir()
    with pytest.raises(SourceError, match="has no file for any of: companies, offices"):
        await bench.build_folder()


async def test_blank_lines_are_no_records_but_count_as_lines(bench: Bench) -> None:
    summary = await bench.build({TEAM: [b"", b"  ", b"{}"]})
    assert summary.of("teams").read == 1
    assert [letter["line"] for letter in bench.letters()] == [3]
