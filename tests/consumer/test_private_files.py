"""Copies, exports, mirrors and dead letters are private to their owner whatever the umask; existing modes stay."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.errors import InvalidRecordError
from indexer.reporting.report import DeadLetters
from indexer.reso.mirror import Mirror
from indexer.source.lines import RejectedLine, SourceLine
from mappings.data_dictionary import load_dictionary
from tests.consumer.conftest import ServedStandIn, run


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Let every file be readable by all, unless a program decides otherwise."""
    previous = os.umask(0)
    yield
    os.umask(previous)


def modes(folder: Path) -> dict[str, str]:
    """Return the modes of a folder and of everything in it that is not as private as it can be."""
    private = {True: 0o700, False: 0o600}
    found = {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    return {path.name: f"{mode:o}" for path, mode in found.items() if mode != private[path.is_dir()]}


@pytest.mark.parametrize("export_format", ["ndjson", "parquet"])
async def test_a_copy_and_its_exports(served: ServedStandIn, tmp_path: Path, export_format: str) -> None:
    folder = tmp_path / "above" / "copy"
    code, _, err = await run(folder, "--url", served.url, "--format", export_format)
    assert (code, err) == (0, "")
    assert {"copy.sqlite3", ".lock", f"listings.{export_format}"} <= {path.name for path in folder.iterdir()}
    assert modes(tmp_path / "above") == {}

    (folder / f"listings.{export_format}").chmod(0o640)
    (folder / "copy.sqlite3").chmod(0o644)
    folder.chmod(0o750)
    served.stand_in.put("listings", "new")
    assert (await run(folder, "--url", served.url, "--format", export_format))[0] == 0
    assert modes(folder) == {folder.name: "750", "copy.sqlite3": "644", f"listings.{export_format}": "640"}


def test_a_mirror_and_its_log(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "replicas" / "m.sqlite", load_dictionary())
    mirror.put("Property", "k", "", {"ListingKey": "k"})
    assert {"m.sqlite", "m.sqlite-wal"} <= {path.name for path in (tmp_path / "replicas").iterdir()}
    assert modes(tmp_path / "replicas") == {}
    mirror.close()


def test_dead_letters(tmp_path: Path) -> None:
    letters = DeadLetters(str(tmp_path / "dead"), "listings")
    letters.add(RejectedLine(SourceLine("f", 1, b"{}"), InvalidRecordError("id", "is missing"), None))
    saved = letters.save()
    letters.close()
    assert modes(tmp_path / "dead") == {}
    again = DeadLetters(str(tmp_path / "dead"), "listings")
    again.resume(saved)
    assert modes(tmp_path / "dead") == {}
