"""How large a run is, and the Elasticsearch it uses: an existing node, or an embedded one of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from embedded import EmbeddedCluster, NodeOptions


@dataclass(frozen=True, kw_only=True)
class Size:
    """How often each group of arms goes round, and how much is asked in a round."""

    rounds: dict[str, int]
    requests: int = 8  # of one client in a round
    requests_each: int = 8  # of each client in a round, where there are several
    warm_up: int = 2  # rounds that do not count
    walks: int = 2


FULL = Size(rounds={"latency": 30, "throughput": 12, "clients": 7})
QUICK = Size(rounds={"latency": 10, "throughput": 6, "clients": 4}, walks=3)
# Enough to see that everything runs; its numbers mean nothing.
SMALLEST = Size(
    rounds=dict.fromkeys(QUICK.rounds, 1),
    requests=2,
    requests_each=1,
    warm_up=1,
    walks=1,
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
    only: frozenset[str] = field(default_factory=frozenset)

    @property
    def results(self) -> Path:
        """The file of all measurements."""
        return self.docs / "performance" / "results.json"


@dataclass(frozen=True)
class Node:
    """An Elasticsearch node. The process and the heap of an existing one are not known."""

    url: str
    pid: int | None = None
    heap_mb: int | None = None


@contextmanager
def node(options: Options) -> Iterator[Node]:
    """Yield the node; stop it afterwards if it was started here."""
    if options.url is not None:
        yield Node(options.url)
        return
    chosen = NodeOptions(data=options.data, ephemeral=options.data is None, heap_mb=options.heap_mb)
    with EmbeddedCluster(chosen) as cluster:
        yield Node(cluster.url, cluster.processes[0].pid, options.heap_mb)
