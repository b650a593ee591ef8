"""Checks of Elasticsearch that have time."""

import pytest

from tests.internals import Internals


@pytest.fixture(autouse=True)
def patience(internals: Internals) -> None:
    """Let no pause of a busy machine pass for an Elasticsearch that does not respond."""
    internals(check_timeout=60.0, readiness_timeout=60.0)
