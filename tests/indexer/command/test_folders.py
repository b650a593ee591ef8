"""A folder that cannot be written to is named before any work, never by a traceback."""

import tempfile
from pathlib import Path

import pytest

from indexer.errors import InvalidRecordError, WorkFolderError
from indexer.reporting.report import DeadLetters, check_folder
from indexer.source.lines import RejectedLine, SourceLine
from indexer.source.opener import open_source
from mappings import COMPANY, TEAM
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.records import envelope, write

ADVICE = "Set BROKERAGE_DEAD_LETTER_DIR to a folder with free space that this user may write to."


@pytest.mark.parametrize("command", ["reindex", "update"])
async def test_an_unusable_dead_letter_folder_is_named_before_any_work(bench: Bench, command: str) -> None:
    source = write(bench.folder, {COMPANY: [envelope(COMPANY)]})
    (bench.folder.parent / "file").write_bytes(b"")
    for folder in (bench.folder.parent / "file", bench.folder.parent / "file" / "inside"):
        code, _, err = await run(bench, command, source, BROKERAGE_DEAD_LETTER_DIR=str(folder))
        assert (code, err) == (1, f"{folder} cannot be written to: Not a directory. {ADVICE}\n")
    assert await bench.indices() == []


def test_an_unusable_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with (
        pytest.raises(WorkFolderError, match=r"No temporary file can be created: No such file or directory\."),
        open_source("-"),
    ):
        pass


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    letters = DeadLetters(str(tmp_path), "teams")
    (tmp_path / Path(letters.save().path).name).symlink_to("/dev/full")
    letters.add(RejectedLine(SourceLine("file", 1, b"{"), InvalidRecordError("", "is bad"), TEAM))
    for act in (letters.flush, letters.close):
        with pytest.raises(WorkFolderError, match=r"cannot be written to: No space left on device\. Set BROKERAGE_D"):
            act()


def test_a_folder_is_not_created_by_the_check(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []
