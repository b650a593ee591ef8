"""Bars are for terminals, and an optional dependency."""

import sys

import pytest

from brokerage_feed import command
from brokerage_feed.command import open_display
from brokerage_feed.pull_bars import PullProgressBars
from brokerage_feed.pull_progress import PullProgressLog


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.usefixtures("_terminal")
def test_a_terminal_gets_bars_unless_lines_are_wanted_or_rich_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_display(as_json=False), PullProgressBars)
    assert isinstance(open_display(as_json=True), PullProgressLog)
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert isinstance(open_display(as_json=False), PullProgressLog)


def test_a_pipe_gets_lines() -> None:
    assert isinstance(open_display(as_json=False), PullProgressLog)
