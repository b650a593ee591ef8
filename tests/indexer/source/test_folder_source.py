"""What a source may be, and source folders: plain and compressed files, absent ones, damaged ones."""

import gzip
import os
from pathlib import Path

import orjson
import pytest

from indexer import FolderSource, RejectedLine, RunStage, SourceError, open_source
from mappings import AGENT, COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.records import envelope, write


async def test_a_resource_that_the_source_lacks_is_left_alone_and_said_to_be_absent(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM)], COMPANY: [envelope(COMPANY)]})
    (bench.folder / "teams.ndjson").unlink()
    summary = await bench.build_folder([COMPANY, TEAM])
    assert summary.report_for("teams").stage is RunStage.ABSENT
    assert await bench.live(TEAM) == "teams-v0001"
    assert await bench.live(COMPANY) == "companies-v0002"


async def test_a_file_that_is_there_plain_and_compressed_is_an_error(bench: Bench) -> None:
    bench.folder.mkdir()
    (bench.folder / "teams.ndjson.gz").touch()
    with pytest.raises(SourceError, match=r"teams\.ndjson and teams\.ndjson\.gz both exist"):
        await bench.build({TEAM: [envelope(TEAM)]})
    assert await bench.indices() == []


async def test_a_compressed_file_that_was_cut_ends_the_build_before_the_swap(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM)]})
    (bench.folder / "teams.ndjson").unlink()
    lines = [orjson.dumps(envelope(TEAM, {"uuid": f"t{n}"})) for n in range(2000)]
    whole = gzip.compress(b"\n".join(lines[:5])) + gzip.compress(b"\n".join(lines))
    (bench.folder / "teams.ndjson.gz").write_bytes(whole[:-20])
    with pytest.raises(SourceError, match=r"teams\.ndjson\.gz cannot be read after line \d+: "):
        await bench.build_folder([TEAM])
    assert await bench.live(TEAM) == "teams-v0001"


def test_a_source_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a folder"):
        FolderSource(tmp_path / "nowhere")


async def test_a_source_without_any_file_is_an_error(bench: Bench) -> None:
    bench.folder.mkdir()
    with pytest.raises(SourceError, match="has nothing for any of: companies, offices"):
        await bench.build_folder()


async def test_blank_lines_are_skipped_but_count_as_lines(bench: Bench) -> None:
    summary = await bench.build({TEAM: [b"", b"  ", b"{}"]})
    assert summary.report_for("teams").read == 1
    assert [letter["line"] for letter in bench.letters()] == [3]


def test_the_changes_of_a_folder_are_its_files_in_order_and_the_position_counts_all(tmp_path: Path) -> None:
    write(tmp_path, {TEAM: [b"1", b"2"], AGENT: [b"3"], COMPANY: [b"", b"4"]})
    with FolderSource(tmp_path).changes() as feed:
        items = [item for item in feed.lines if not isinstance(item, RejectedLine)]
        assert [(resource, line.number, line.data.strip()) for resource, line in items] == [
            (COMPANY, 2, b"4"),
            (AGENT, 1, b"3"),
            (TEAM, 1, b"1"),
            (TEAM, 2, b"2"),
        ]
        assert feed.position() == feed.total == 9


def test_the_position_grows_while_changes_are_read(tmp_path: Path) -> None:
    write(tmp_path, {COMPANY: [b"1"], TEAM: [b"2"]})
    with FolderSource(tmp_path).changes() as feed:
        assert feed.position() == 0
        next(feed.lines)
        assert feed.position() == 2
        next(feed.lines)
        assert feed.position() == 4


def test_a_file_has_an_identity_and_a_time_until_it_is_changed(tmp_path: Path) -> None:
    source = FolderSource(write(tmp_path, {TEAM: [b"1"], AGENT: [b"1"]}))
    path = tmp_path / "teams.ndjson"
    os.utime(path, ns=(0, 1_500_000_000_123_456_789))
    identities = [source.identity(AGENT), source.identity(TEAM)]
    assert source.identity(TEAM) == identities[-1]
    assert source.taken_at(TEAM) == 1_500_000_000_123_456
    os.utime(path, ns=(0, 1_500_000_000_123_456_790))
    identities.append(source.identity(TEAM))
    path.write_bytes(b"longer")
    os.utime(path, ns=(0, 1_500_000_000_123_456_790))
    identities.append(source.identity(TEAM))
    assert len(set(identities)) == 4


@pytest.mark.parametrize("name", ["nowhere", "nowhere.ndjson", "table.csv", "envelopes.json"])
def test_an_invalid_source_is_refused_with_the_valid_kinds(tmp_path: Path, name: str) -> None:
    if not name.startswith("nowhere"):
        (tmp_path / name).touch()
    said = "does not exist" if name.startswith("nowhere") else "is not supported"
    with (
        pytest.raises(SourceError, match=rf"{name} {said}: use a folder .* \.ndjson\.zst, .*column map, or - for "),
        open_source(str(tmp_path / name)),
    ):
        pass


def test_a_folder_can_be_named(tmp_path: Path) -> None:
    with open_source(str(write(tmp_path, {TEAM: [b"1"]}))) as source:
        assert (source.has(TEAM), source.has(AGENT)) == (True, False)
