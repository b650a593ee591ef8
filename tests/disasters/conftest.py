"""A cluster of its own for disasters, with a folder for backups."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded import EmbeddedCluster, NodeOptions


@pytest.fixture(scope="session")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder below which repositories may lie."""
    return tmp_path_factory.mktemp("backups")


@pytest.fixture(scope="session")
def cluster(backups: Path) -> Iterator[EmbeddedCluster]:
    options = NodeOptions(ephemeral=True, heap_mb=512, settings={"path.repo": str(backups)})
    with EmbeddedCluster(options) as running:
        yield running
