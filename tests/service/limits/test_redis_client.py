"""The Redis client is an optional dependency: without it a Redis URL is refused, and nothing else is."""

import subprocess
import sys

import pytest

from cluster.settings import SettingError
from service.redis.capability import RedisSettings

_URL = "redis://127.0.0.1:6379/0"
# An environment in which no import of the client succeeds.
_WITHOUT = "import sys; sys.modules['redis'] = None; "


def test_a_url_without_the_client_is_refused_by_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SettingError) as refused:
        RedisSettings(redis_url=_URL)
    assert str(refused.value) == (
        "BROKERAGE_REDIS_URL needs the Redis client, which is not installed: pip install redis."
    )
    assert RedisSettings().redis_url == ""


@pytest.mark.parametrize("module", ["brokerage.doctor.command", "brokerage.serve", "service.app"])
def test_commands_start_without_the_client(module: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-c", f"{_WITHOUT}import {module}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
