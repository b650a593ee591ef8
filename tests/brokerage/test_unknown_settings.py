"""An unknown variable keeps every command from starting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from brokerage.command import main

AWAY = {"ELASTICSEARCH_URL": "http://127.0.0.1:9"}
UNKNOWN_NAME = {**AWAY, "BROKERAGE_DEADLIN_SECONDS": "2"}
SAID = "BROKERAGE_DEADLIN_SECONDS is not a setting. Did you mean BROKERAGE_DEADLINE_SECONDS?\n"


def run_command(command: str, environment: dict[str, str]) -> Result:
    """Run `brokerage COMMAND` to its end, with no other settings than these."""
    others = {name: None for name in os.environ if name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    return CliRunner().invoke(main, command.split(), env={**others, **environment, "COLUMNS": "200"})


@pytest.mark.parametrize(
    "command", ["serve", "demo", "node", "keys list", "index status", "index reindex {source}", "index verify"]
)
def test_no_command_starts_with_an_unknown_variable(command: str, tmp_path: Path) -> None:
    result = run_command(command.format(source=tmp_path), UNKNOWN_NAME)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", SAID)


def test_settings_lists_all_settings_before_it_reports_the_unknown_one() -> None:
    result = run_command("settings", UNKNOWN_NAME)
    assert (result.exit_code, result.stderr) == (2, SAID)
    assert "BROKERAGE_DEADLINE_SECONDS" in result.stdout


@pytest.mark.parametrize("command", ["serve", "keys list"])
@pytest.mark.parametrize("suffix", ["", "_FILE"])
def test_no_command_starts_with_a_setting_of_what_is_left_out(command: str, suffix: str) -> None:
    name = f"BROKERAGE_AUDIT_DAYS{suffix}"
    result = run_command(command, {**AWAY, "BROKERAGE_WITHOUT": "reso audit", name: "30"})
    said = f"{name} is not a setting. It belongs to audit, which BROKERAGE_WITHOUT leaves out: remove one of them.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_settings_lists_those_of_what_is_installed() -> None:
    whole, part = (run_command("settings", {**AWAY, **given}) for given in ({}, {"BROKERAGE_WITHOUT": "audit"}))
    assert (whole.exit_code, part.exit_code) == (0, 0)
    assert ("BROKERAGE_AUDIT_DAYS" in whole.stdout, "BROKERAGE_AUDIT_DAYS" in part.stdout) == (True, False)
    assert "BROKERAGE_EXPORTS_KEPT" in part.stdout


@pytest.mark.parametrize("command", ["serve", "settings", "doctor"])
def test_an_unknown_capability_is_reported(command: str) -> None:
    result = run_command(command, {**AWAY, "BROKERAGE_WITHOUT": "resso"})
    assert result.exit_code in {1, 2}
    assert "BROKERAGE_WITHOUT: 'resso' is none of: changes" in " ".join((result.stdout + result.stderr).split())


def test_help_can_be_had_all_the_same() -> None:
    assert run_command("serve --help", UNKNOWN_NAME).exit_code == 0


@pytest.mark.parametrize("origins", ["https://portal.example/", "portal.example", "https://A.example", "null", "a b"])
def test_an_origin_that_no_browser_sends_is_refused(origins: str) -> None:
    result = run_command("serve", {**AWAY, "BROKERAGE_CORS_ORIGINS": origins})
    assert result.exit_code == 2
    assert result.stderr.startswith(f"BROKERAGE_CORS_ORIGINS: {origins!r} is not an origin.")


@pytest.mark.parametrize(
    ("module", "variable", "other"),
    [
        ("brokerage.serve", "BROKERAGE_AUDIT_DAYS", "indexer"),
        ("brokerage.index.runner", "BROKERAGE_SHRINK_LIMIT", "service.capabilities"),
    ],
)
def test_what_a_command_does_not_need_takes_no_memory(module: str, variable: str, other: str) -> None:
    check = "brokerage.settings_types.reject_unknown_settings(os.environ)"
    program = f"import os, sys, {module}, brokerage.settings_types; {check}; print({other!r} in sys.modules)"
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env={variable: "1"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
