"""What the help of every command holds: examples that can be typed, exit codes that exist, colours on terminals."""

import os
import pty
import re
import signal
import subprocess
import sys

import orjson
import pytest
import rich_click as click

from brokerage.settings_types import settings_types
from brokerage_feed.terminal import ExitCode
from tests.brokerage.command_tree import COMMANDS, examples, parse_command_line
from tests.brokerage.conftest import COMMAND, run
from tests.terminal import read_to_end

_COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
_STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM}
_LINES = [(path, line) for path, command in COMMANDS.items() for line in examples(command)]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_examples_and_exit_codes(path: str) -> None:
    command = COMMANDS[path]
    assert examples(command)
    (listed,) = re.findall(r"Exit codes: (.*)\.$", command.epilog or "")
    codes = {int(code) for code in re.findall(r"\b\d+\b", listed)}
    assert {ExitCode.SUCCESS, ExitCode.USAGE} <= codes
    assert codes <= set(ExitCode) | _STOPPED


@pytest.mark.parametrize(("path", "line"), _LINES)
def test_an_example_is_a_call_of_its_own_command(path: str, line: str) -> None:
    called = parse_command_line(line)
    assert called == path or (isinstance(COMMANDS[path], click.Group) and called.startswith(f"{path} "))


def test_an_example_that_is_none_would_be_found() -> None:
    with pytest.raises(click.UsageError):
        parse_command_line("brokerage keys create")
    with pytest.raises(click.UsageError):
        parse_command_line("brokerage index update - --resource homes")


@pytest.mark.parametrize(("typed", "meant"), [(["indx"], "index"), (["index", "reindx"], "reindex")])
def test_a_misspelt_command_is_answered_with_the_one_that_is_close(typed: list[str], meant: str) -> None:
    refused = run(*typed, environment={"COLUMNS": "200"})
    assert refused.returncode == ExitCode.USAGE
    assert f"No such command '{typed[-1]}'. Did you mean '{meant}'?" in " ".join(
        refused.stderr.replace("│", "").split()
    )


@pytest.mark.parametrize("group", ["", "index"])
def test_the_help_lists_every_command_with_the_beginning_of_its_own_help(group: str) -> None:
    shown = run(*group.split(), "--help", environment={"COLUMNS": "200"}).stdout
    listed = dict(re.findall(r"^│ ([a-z-]+)  +(.+?)\.? +│$", shown.partition("Commands")[2], re.MULTILINE))
    parent = f"brokerage {group}".strip()
    helps = {
        path.rpartition(" ")[2]: " ".join((command.help or "").split())
        for path, command in COMMANDS.items()
        if path.rpartition(" ")[0] == parent
    }
    assert set(listed) == set(helps)
    assert [name for name, summary in listed.items() if not helps[name].startswith(summary)] == []


def test_the_help_imports_no_command() -> None:
    listing = (
        "import sys; from brokerage.command import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)  # noqa: S603
    imported = shown.stdout.splitlines()[-1].split()
    assert "brokerage.command" in imported
    assert {"aiohttp", "elasticsearch", "brokerage.serve", "brokerage.keys"} & {*imported} == set()


def _shown_on_terminal(*arguments: str, environment: dict[str, str]) -> str:
    """Return what a command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    given = kept | {"TERM": "xterm-256color", "COLUMNS": "80"} | environment
    with os.fdopen(ours, "rb") as screen:
        subprocess.run([COMMAND, *arguments], stdout=theirs, env=given, check=True)  # noqa: S603 - our own command
        os.close(theirs)
        return read_to_end(screen.fileno())


def test_every_example_is_one_line_of_80_columns() -> None:
    shown = run("index", "reindex", "--help", environment={"COLUMNS": "80"}).stdout
    for path, line in _LINES:
        assert len(f" $ {line}") <= 80, line
        assert path != "brokerage index reindex" or f" $ {line} " in shown


def test_colours_are_for_terminals_alone() -> None:
    assert _COLOUR.search(_shown_on_terminal("serve", "--help", environment={}))
    assert not _COLOUR.search(_shown_on_terminal("serve", "--help", environment={"NO_COLOR": "1"}))
    assert "\x1b" not in run("serve", "--help", environment={}).stdout
    assert "\x1b" not in run("settings", environment={}).stdout


def test_settings_are_printed_as_json_by_group_and_without_secrets() -> None:
    environment = {"BROKERAGE_PORT": "81", "BROKERAGE_ELASTICSEARCH_API_KEY": "very-secret"}
    shown = run("settings", "--json", environment=environment)
    listed = {setting["variable"]: setting for setting in orjson.loads(shown.stdout)}
    assert {setting["group"] for setting in listed.values()} == {
        kind.__name__[: -len("Settings")].lower() for kind in settings_types({})
    }
    port = listed["BROKERAGE_PORT"]
    assert (port["group"], port["value"], port["origin"]) == ("service", "81", "environment")
    assert listed["BROKERAGE_ELASTICSEARCH_API_KEY"]["value"] == "********"
    assert "very-secret" not in shown.stdout
