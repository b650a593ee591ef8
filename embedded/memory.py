"""How much memory this machine, or the container it is, still has for a node."""

import os
from pathlib import Path
from typing import Final

from embedded.errors import EmbeddedNodeError
from embedded.options import HEAP_SETTING, LEAST_HEAP_MB, NodeOptions

OVERHEAD_MB: Final = 400  # code, class data, threads and network buffers of one node beside its heap
_MB: Final = 1024 * 1024


def check_memory(options: NodeOptions) -> None:
    """Raise EmbeddedNodeError when the nodes wanted would not fit."""
    wanted = options.nodes * (options.heap_mb + OVERHEAD_MB)
    available = available_mb()
    if available is not None and available < wanted:
        need = "1 node needs" if options.nodes == 1 else f"{options.nodes} nodes need"
        raise EmbeddedNodeError(
            f"{need} {wanted} MB of memory at a heap of {options.heap_mb} MB and {available} MB are free: "
            f"lower {HEAP_SETTING} (at least {LEAST_HEAP_MB}), start fewer nodes, or close other programs"
        )


def available_mb() -> int | None:
    """Memory free for new programs in MB, the lesser of the machine's and the container's; None where nothing tells."""
    known = [amount for amount in (_machine(), memory_of_container()) if amount is not None]
    return min(known) // _MB if known else None


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return _free_pages()


def _free_pages() -> int | None:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def memory_of_container(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What its limit (control groups, version 2) leaves, in bytes; None without a limit."""
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # not there, or "max": no limit
        return None
    reclaimable = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return limit - used + reclaimable
