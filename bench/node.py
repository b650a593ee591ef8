"""The Elasticsearch that a run uses: one that is named, or an embedded node of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedded import EmbeddedCluster, NodeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.options import Options


@dataclass(frozen=True)
class Node:
    """Where it answers. Of a node that is not ours neither process nor heap is known."""

    url: str
    pid: int | None = None
    heap_mb: int | None = None


@contextmanager
def node(options: Options) -> Iterator[Node]:
    """Give the node, and stop it afterwards if it was started for this."""
    if options.url is not None:
        yield Node(options.url)
        return
    chosen = NodeOptions(data=options.data, ephemeral=options.data is None, heap_mb=options.heap_mb)
    with EmbeddedCluster(chosen) as cluster:
        yield Node(cluster.url, cluster.processes[0].pid, options.heap_mb)
