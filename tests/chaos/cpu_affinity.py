"""CPUs reserved for Elasticsearch, as if it ran on a different machine."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def separate_cpus(nodes: Iterable[int]) -> Iterator[None]:
    """Pin processes to the first CPU, and this one with its children to the others. Linux only."""
    pids = [*nodes]
    everywhere = os.sched_getaffinity(0)
    first = min(everywhere)
    _keep(pids, {first})
    os.sched_setaffinity(0, everywhere - {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)
        _keep(pids, everywhere)


def _keep(pids: Iterable[int], processors: set[int]) -> None:
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)
