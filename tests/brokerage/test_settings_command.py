"""`brokerage settings`: all settings, or those that contain a word, in lines of a table that nothing pads."""

import pytest
from click.testing import CliRunner

from brokerage.settings import settings


def test_a_word_selects_settings_by_name_meaning_and_group() -> None:
    lines = CliRunner().invoke(settings, ["redis"]).output.splitlines()
    named = [line.split()[0] for line in lines if line.startswith("BROKERAGE_")]
    assert {"BROKERAGE_REDIS_URL", "BROKERAGE_REDIS_ALLOW_PLAIN"} <= {*named}
    assert all("redis" in line.lower() for line in lines if line.startswith("BROKERAGE_"))


def test_a_word_that_no_setting_has_is_an_error() -> None:
    ended = CliRunner().invoke(settings, ["nonsense"])
    assert ended.exit_code == 2
    assert "No setting contains 'nonsense'" in ended.output


@pytest.mark.parametrize("arguments", [[], ["port"]])
def test_no_line_ends_in_blanks(arguments: list[str]) -> None:
    lines = CliRunner().invoke(settings, arguments).output.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []
