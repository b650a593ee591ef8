"""An installation to replicate into, and a client with short delays."""

import pytest

from tests.indexer.conftest import bench
from tests.internals import Internals
from tests.reso.clock import Clock

__all__ = ["bench"]


@pytest.fixture
def short_delays(internals: Internals) -> None:
    """Ask again after a fault within a hundredth of the usual time: a test server needs no recovery."""
    internals(odata_first_delay_seconds=0.005)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of comparisons."""
    stopped = Clock()
    for module in ("indexer.reso.sync.key_comparisons", "indexer.reso.sync.entity_sync"):
        monkeypatch.setattr(f"{module}.time", stopped)
    return stopped
