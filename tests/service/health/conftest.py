"""Checks of Elasticsearch that have time."""

import pytest

REQUEST_TIMEOUT = "service.health.checks._REQUEST_TIMEOUT_SECONDS"
READ_TIMEOUT = "service.health.monitor._READ_TIMEOUT_SECONDS"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pause of a busy machine pass for an Elasticsearch that does not respond."""
    for name in (REQUEST_TIMEOUT, READ_TIMEOUT):
        monkeypatch.setattr(name, 60.0)
