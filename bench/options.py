"""How large a run is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Size:
    """How often each group of arms goes round, and how much is asked in a round."""

    rounds: dict[str, int]
    requests: int = 8  # of one client in a round
    requests_each: int = 8  # of each client in a round, where there are several
    warm_up: int = 2  # rounds that do not count
    walks: int = 2
    memory_rounds: int = 3
    memory_pages: int = 10  # of each client


FULL = Size(
    rounds={"latency": 30, "throughput": 12, "clients": 7, "peers": 7, "before updates": 10, "after updates": 10},
    walks=2,
)
QUICK = Size(
    rounds={"latency": 10, "throughput": 6, "clients": 4, "peers": 4, "before updates": 5, "after updates": 5},
    walks=3,
    memory_pages=6,
)
# Enough to see that everything runs; its numbers mean nothing.
SMALLEST = Size(
    rounds=dict.fromkeys(QUICK.rounds, 1),
    requests=2,
    requests_each=1,
    warm_up=1,
    walks=1,
    memory_rounds=1,
    memory_pages=2,
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run. `url` names a node that is there; without it one is started, on `data` where that is given."""

    listings: int
    size: Size
    docs: Path
    page: int = 200
    large_page: int = 1000
    url: str | None = None
    data: Path | None = None
    heap_mb: int = 4096
    prefix: str = "bench-"
    changed_share: float = 0.05
    only: frozenset[str] = field(default_factory=frozenset)

    @property
    def results(self) -> Path:
        """The file of all measurements."""
        return self.docs / "performance" / "results.json"
