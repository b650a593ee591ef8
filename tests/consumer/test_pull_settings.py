"""Settings of a pull: declared once, as options; given by an option, a variable or a file; and never mistyped."""

import os
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from brokerage.pull import pull as server_pull
from brokerage.settings_types import PullSettings
from brokerage_feed.command import main, pull
from brokerage_feed.pull_settings import API_KEY, PULL_SETTINGS
from tests.consumer.conftest import ServedStandIn, copied, run
from tests.consumer.stand_in_service import KEY

_VARIABLES = {
    "BROKERAGE_API_KEY": "",
    "BROKERAGE_PULL_ATTEMPTS": 8,
    "BROKERAGE_PULL_ALLOW_HTTP": False,
    "BROKERAGE_PULL_VERIFY_SECONDS": 3600.0,
    "BROKERAGE_PULL_EXPORT_SECONDS": 300.0,
    "BROKERAGE_PULL_MAX_FILE_MIB": 4096,
    "BROKERAGE_PULL_MAX_TOTAL_GIB": 256,
    "BROKERAGE_PULL_MIN_FREE_MIB": 256,
    "BROKERAGE_PULL_FILE_HOSTS": "",
}


def client(*arguments: object, **variables: str) -> Result:
    """Run `brokerage-feed pull ARGUMENTS` with no other settings than these."""
    others = {name: None for name in os.environ if name.startswith("BROKERAGE_")}
    return CliRunner().invoke(main, ["pull", *map(str, arguments)], env={**others, **variables})


def test_the_server_lists_the_options_of_the_client() -> None:
    listed = {declared.metadata["variable"]: declared.default for declared in fields(PullSettings)}
    assert listed == _VARIABLES == {option.variable: option.default for option in PULL_SETTINGS}
    assert {declared.name for declared in fields(PullSettings) if not declared.repr} == {API_KEY.name}
    assert server_pull.params == pull.params


@pytest.mark.parametrize("arguments", [["--attempts", "0"], ["--verify-seconds", "soon"]])
def test_a_wrong_value_is_refused_by_its_option_and_variable(tmp_path: Path, arguments: list[str]) -> None:
    result = client(tmp_path, "--url", "http://127.0.0.1:9", *arguments)
    assert result.exit_code == 2
    variable = f"BROKERAGE_PULL_{arguments[0][2:].upper().replace('-', '_')}"
    assert f"Invalid value for '{arguments[0]}' (env var: '{variable}')" in result.stderr
    given = client(tmp_path, "--url", "http://127.0.0.1:9", **{variable: arguments[1]})
    assert (given.exit_code, given.stderr) == (2, result.stderr)


def test_the_key_is_no_argument(tmp_path: Path) -> None:
    result = client(tmp_path, "--url", "http://127.0.0.1:9", "--api-key", KEY)
    assert result.exit_code == 2
    assert "No such option" in result.stderr
    assert "--api-key" not in client("--help").stdout


def test_a_mistyped_variable_is_refused(tmp_path: Path) -> None:
    result = client(tmp_path, "--url", "http://127.0.0.1:9", BROKERAGE_API_KEY=KEY, BROKERAGE_PULL_ATEMPTS="1")
    assert result.exit_code == 2
    assert "BROKERAGE_PULL_ATEMPTS is not a setting. Did you mean BROKERAGE_PULL_ATTEMPTS?" in result.stderr


async def test_a_variable_can_name_a_file(served: ServedStandIn, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n", encoding="utf-8")
    code, _, stderr = await run(tmp_path / "copy", "--url", served.url, key=None, BROKERAGE_API_KEY_FILE=str(file))
    assert (code, stderr) == (0, "")
    assert copied(tmp_path / "copy") == served.stand_in.contents()
    file.unlink()
    result = client(tmp_path / "copy", "--url", served.url, BROKERAGE_API_KEY_FILE=str(file))
    assert result.exit_code == 2
    assert f"BROKERAGE_API_KEY_FILE names {file}, which cannot be read" in result.stderr
