"""The options of an embedded cluster, the memory and ports that it needs, its errors and reports of its start."""

import os
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


class EmbeddedNodeError(Exception):
    """The node cannot start or run; the message is one sentence with the reason and the remedy.

    `log` is the log file of Elasticsearch, if there is one; the message names it too.
    """

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class DataFolderError(EmbeddedNodeError):
    """The data folder cannot be used; the message ends with the advice to choose another one."""


@dataclass(frozen=True, slots=True)
class StartProgress:
    """One step of a start. A download has `total` > 0 and a growing `done`, both in bytes."""

    step: str
    done: int = 0
    total: int = 0


ProgressCallback = Callable[[StartProgress], None]


def ignore_progress(_progress: StartProgress) -> None:
    """Discard the report."""


HEAP_SETTING: Final = "BROKERAGE_NODE_HEAP_MB"
MIN_HEAP_MB: Final = 256
DEFAULT_HEAP_MB: Final = 1024


def _heap_from_environment() -> int:
    """The heap of each node in MB: `BROKERAGE_NODE_HEAP_MB`, by default 1024."""
    text = os.environ.get(HEAP_SETTING, str(DEFAULT_HEAP_MB))
    if not text.isdecimal() or int(text) < MIN_HEAP_MB:
        raise EmbeddedNodeError(
            f'{HEAP_SETTING} is "{text}" but must be a whole number of megabytes, {MIN_HEAP_MB} or more'
        )
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Number, ports, data folder and size of the nodes.

    `port` is the HTTP port of the first node, followed by those of the others; None selects free ports.
    `data` is a persistent folder, by default one in the user's cache; `ephemeral` uses a temporary one instead, removed
    at the end. `heap_mb` is the heap of each node. `settings` are additional Elasticsearch settings.
    """

    nodes: int = 1
    port: int | None = None
    data: Path | None = None
    ephemeral: bool = False
    heap_mb: int = field(default_factory=_heap_from_environment)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise EmbeddedNodeError(f"nodes is {self.nodes} but must be 1 or more")
        if self.ephemeral and self.data is not None:
            raise EmbeddedNodeError("choose either a data folder or ephemeral data, not both")


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


HOST: Final = "127.0.0.1"
_HIGHEST: Final = 65535


# Below those that systems give to connections, so that none takes a port before a slow process listens on it.
_STEADY_PORTS: Final = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return free ports in random order; raise EmbeddedNodeError if there are too few."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(_STEADY_PORTS, len(_STEADY_PORTS)):
            if len(ports) == count:
                return ports
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind((HOST, port))
                ports.append(port)
    raise EmbeddedNodeError(
        f"{count} ports are needed, and too few of {_STEADY_PORTS[0]} to {_STEADY_PORTS[-1]} are free"
    )


def require_ports(first: int, count: int) -> list[int]:
    """`count` ports from `first` on; raise EmbeddedNodeError for the first that is in use."""
    ports = list(range(first, first + count))
    if ports[-1] > _HIGHEST:
        raise EmbeddedNodeError(
            f"port {first} leaves no room for {count} nodes below {_HIGHEST + 1}: choose a lower one"
        )
    for port in ports:
        _require_free(port)
    return ports


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EmbeddedNodeError(
                f"port {port} cannot be used ({error.strerror}): stop the program that uses it or choose another --port"
            ) from error
