"""Completion, asked as the shells ask: by the script that they are given."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mappings import RESOURCES
from tests.brokerage.command_tree import COMMANDS
from tests.brokerage.conftest import run

_BASH = """source "$0"
compopt() { echo "compopt $1 $2"; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_brokerage_completion brokerage
printf '%s\\n' "${COMPREPLY[@]}"
"""
_TOP = [path.partition(" ")[2] for path in COMMANDS if path.count(" ") == 1]
_NAMES = [resource.alias for resource in RESOURCES]
# What is typed, and what the shell offers.
TYPED = {
    "brokerage ": _TOP,
    "brokerage in": ["index"],
    "brokerage keys r": ["rotate", "revoke"],
    "brokerage index reindex data ": _NAMES,
    "brokerage index reindex data agents so": ["sold_listings"],
    "brokerage index update - --resource te": ["teams"],
    "brokerage index rollback l": ["listings"],
    "brokerage index verify of": ["offices"],
    "brokerage serve --w": ["--workers"],
    "brokerage completion ": ["bash", "zsh", "fish"],
    # Files are the shell's to complete.
    "brokerage index reindex da": ["compopt -o default"],
    "brokerage index update da": ["compopt -o default"],
    "brokerage index verify da": ["compopt -o default"],
    "brokerage sample da": ["compopt -o dirnames"],
    # Elasticsearch is not asked.
    "brokerage keys revoke ": [],
}


def _environment() -> dict[str, str]:
    # Nothing answers there: whatever asked would fail, or wait.
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "ELASTICSEARCH_URL": "http://127.0.0.1:9",
    }


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script that bash reads at its start."""
    path = tmp_path_factory.mktemp("completion") / "brokerage.bash"
    path.write_text(run("completion", "bash", environment={}).stdout, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("typed", TYPED)
def test_bash_completes(typed: str, script: str) -> None:
    command = ["bash", "--norc", "-c", _BASH, script, *typed.split(" ")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())  # noqa: S603 - ours
    assert ended.stderr == ""
    assert sorted(line for line in ended.stdout.splitlines() if line) == sorted(TYPED[typed])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(shell: str) -> None:
    printed = run("completion", shell, environment={})
    assert printed.returncode == 0
    assert f"_BROKERAGE_COMPLETE={shell}_complete" in printed.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=printed.stdout, capture_output=True, text=True, check=False)  # noqa: S603
        assert (checked.returncode, checked.stderr) == (0, "")


def test_commands_are_completed_without_importing_them() -> None:
    look = "import sys; from brokerage.command import main; main(prog_name='brokerage')"
    watched = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr)); {look}"
    environment = _environment() | {
        "_BROKERAGE_COMPLETE": "bash_complete",
        "COMP_WORDS": "brokerage\n",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-c", watched]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - ours
    assert [line.removeprefix("plain,") for line in ended.stdout.splitlines()] == _TOP
    imported = set(ended.stderr.splitlines())
    assert "brokerage.command" in imported
    assert not {"elasticsearch", "service", "indexer"} & imported
