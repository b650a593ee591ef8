"""What was logged during a test."""

import pytest


def logged(caplog: pytest.LogCaptureFixture, logger: str, start: str = "") -> list[str]:
    """Return the messages of one logger that start so; services that other tests keep running log, too."""
    messages = [record.getMessage() for record in caplog.records if record.name == logger]
    return [message for message in messages if message.startswith(start)]
