"""Memory available for nodes on this machine or in this container."""

import os
from pathlib import Path
from typing import Final

from embedded.errors import EmbeddedNodeError
from embedded.node_options import HEAP_SETTING, MIN_HEAP_MB, NodeOptions

OVERHEAD_MB: Final = 400  # code, class data, threads and network buffers of one node in addition to its heap
_MB: Final = 1024 * 1024


def check_memory(options: NodeOptions) -> None:
    """Raise EmbeddedNodeError if the configured nodes do not fit into memory."""
    wanted = options.nodes * (options.heap_mb + OVERHEAD_MB)
    available = available_mb()
    if available is not None and available < wanted:
        need = "1 node needs" if options.nodes == 1 else f"{options.nodes} nodes need"
        raise EmbeddedNodeError(
            f"{need} {wanted} MB of memory at a heap of {options.heap_mb} MB and {available} MB are free: "
            f"lower {HEAP_SETTING} (at least {MIN_HEAP_MB}), start fewer nodes, or close other programs"
        )


def available_mb() -> int | None:
    """Available memory in MB, the lesser of the machine's and the container's; None if unknown."""
    known = [amount for amount in (_host_memory(), container_memory()) if amount is not None]
    return min(known) // _MB if known else None


def _host_memory() -> int | None:
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


def container_memory(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes left below the limit of the container (cgroup v2); None without a limit."""
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # not there, or "max": no limit
        return None
    reclaimable = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return limit - used + reclaimable
