"""Texts of records and servers reach a terminal with their control characters visible."""

import ast
import io
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

import brokerage_feed.errors
from brokerage_feed.terminal import echo
from cluster.terminal import SafeConsole, printable
from service.telemetry.logs import ConsoleLogFormatter, JsonLogFormatter

ROOT = Path(__file__).parents[2]
# A title, a cleared screen, a colour in one byte, an overwritten line, and a reversed name of a file.
HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b31m\rb\u202etxt.exe\u2028\x00\x7f"
UNSAFE = "".join(character for character in HOSTILE if not character.isprintable())
# Of commands that print texts of others, all but shell code of our own.
_PRINTERS = {"consumer/brokerage_feed/terminal.py", "brokerage/completion.py"}
_CONSOLES = {"cluster/terminal.py", "consumer/brokerage_feed/command.py"}


def _is_safe(text: str) -> bool:
    return not any(character in text for character in UNSAFE)


@given(st.text())
def test_no_unsafe_character_stays_and_all_others_do(text: str) -> None:
    shown = printable(text)
    assert _is_safe(shown)
    assert printable(shown) == shown == brokerage_feed.errors.printable(text)
    assert all(character in shown for character in text if character.isprintable())
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


def test_a_console_shows_them_in_tables_and_keeps_its_own_colors() -> None:
    written = io.StringIO()
    console = SafeConsole(file=written, force_terminal=True, color_system="standard", width=200)
    table = Table("[bold]name[/bold]")
    table.add_row(HOSTILE)
    console.print(table)
    console.print(f"[red]{HOSTILE}[/red]")
    shown = written.getvalue()
    assert "\\u001b]0;title" in shown
    assert "\x1b[31m" in shown
    assert not {"\x1b]", "\x1b[2J", "\x9b", "\r", "\u202e", "\x07"} & {part for part in _SEQUENCES if part in shown}


_SEQUENCES = ("\x1b]", "\x1b[2J", "\x9b", "\r", "\u202e", "\x07")


@pytest.mark.parametrize("formatter", [ConsoleLogFormatter(), JsonLogFormatter()])
def test_log_lines_show_them(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("service", logging.WARNING, "", 0, "a node said %s", (HOSTILE,), None)
    assert _is_safe(formatter.format(record))


def test_echo_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    echo(HOSTILE, err=True)
    echo(HOSTILE.encode())
    printed = capsys.readouterr()
    assert _is_safe(printed.err)
    assert printed.err == printed.out


def test_no_command_prints_past_them() -> None:
    """All printing goes through `echo` and `SafeConsole`."""
    calls = {
        (path.relative_to(ROOT).as_posix(), ast.unparse(node.func))
        for package in ("brokerage", "cluster", "consumer", "indexer", "service")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    assert {file for file, name in calls if name in {"click.echo", "click.secho", "print"}} <= _PRINTERS
    assert {file for file, name in calls if name == "Console"} <= _CONSOLES
