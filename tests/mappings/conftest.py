"""The option that renews the snapshots of index bodies: `pytest tests/mappings --update-snapshots`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option; it is known when the run starts in this folder."""
    parser.addoption("--update-snapshots", action="store_true", help="rewrite the snapshots of index bodies")


@pytest.fixture
def update_snapshots(request: pytest.FixtureRequest) -> bool:
    """Whether to write snapshots instead of comparing them."""
    return bool(request.config.getoption("--update-snapshots", default=False))
