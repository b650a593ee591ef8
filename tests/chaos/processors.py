"""Processors of their own for Elasticsearch, as if it ran on another machine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def apart(nodes: Iterable[int]) -> Iterator[None]:
    """Keep processes to the first processor, and this one with what it starts to the others. Linux only."""
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
