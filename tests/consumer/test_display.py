"""A person at a terminal reads what happens and what to do next; a program reads JSON lines."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from brokerage_feed.command import open_display
from brokerage_feed.pull_progress import (
    PullProgressLog,
    PullProgressText,
    PullStage,
    PullStatus,
    VerificationOutcome,
)


def test_a_terminal_gets_sentences_unless_lines_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_display(Path("copy"), as_json=False), PullProgressLog)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert isinstance(open_display(Path("copy"), as_json=False), PullProgressText)
    assert isinstance(open_display(Path("copy"), as_json=True), PullProgressLog)


def test_a_person_reads_retries_the_outcome_and_what_to_try() -> None:
    stream = io.StringIO()
    listings = PullStatus("listings", PullStage.CURRENT, records=2000, snapshots=1, changed=3)
    with PullProgressText(stream, Path("copy")) as shown:
        for _ in range(3):
            shown.show(PullStatus("listings", PullStage.SNAPSHOT, done=10, total=2000, note="503: trying again in 2 s"))
        listings.proof = VerificationOutcome.EQUAL
        agents = PullStatus("agents", PullStage.CURRENT, records=1, proof=VerificationOutcome.EQUAL)
        shown.finish([listings, agents, PullStatus("teams", PullStage.ABSENT)])
    lines = [line.rpartition("\x1b[K")[2] for line in stream.getvalue().split("\n")]
    assert lines == [
        "listings: 503: trying again in 2 s",
        "listings: 2,000 records (from a snapshot, then 3 changes), identical to the service",
        "agents: 1 record (no changes), identical to the service",
        "teams: the service has no data of it yet",
        "The copy is copy/copy.sqlite3. Run the command again to update it, or add --follow.",
        'Try: sqlite3 copy/copy.sqlite3 "SELECT count(*) FROM listings"',
        "",
    ]


def test_a_copy_that_differs_is_named_with_its_first_records() -> None:
    stream = io.StringIO()
    different = PullStatus("listings", records=30, proof=VerificationOutcome.DIFFERENT)
    different.different = [f"L{number}" for number in range(25)]
    PullProgressText(stream, Path("copy")).finish([different])
    assert ", L19 and 5 more" in stream.getvalue()
    assert "copy/copy.sqlite3 differs from the service. Run the command again." in stream.getvalue()


def test_windows_is_told_at_once() -> None:
    program = "import sys; sys.modules['fcntl'] = None; import brokerage_feed.command"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "ImportError: brokerage-feed needs Linux or macOS; on Windows, use the Windows Subsystem for Linux.\n"
    )
