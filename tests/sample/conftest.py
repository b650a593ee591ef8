"""One generated source that most tests read, written once a session for a fixed moment."""

import datetime as dt
import json
from typing import Any

import pytest

from sample import write_source

NOW = dt.datetime(2026, 11, 20, 10, 0, 0, 123000, tzinfo=dt.UTC)
LISTINGS = 4000

Source = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def now() -> dt.datetime:
    """The moment that `source` is written for."""
    return NOW


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """All envelopes by resource alias."""
    directory = tmp_path_factory.mktemp("sample") / "source"
    write_source(directory, LISTINGS, now=NOW)
    files = directory.glob("*.ndjson")
    return {file.stem: [json.loads(line) for line in file.read_bytes().splitlines()] for file in files}
