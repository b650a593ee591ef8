"""What processes and all their descendants use: processor seconds and memory."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

_PROC = Path("/proc")


def tree(root: int) -> list[psutil.Process]:
    """Return a process and all its descendants, as they are now; none if it has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def processor_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds that each process and its descendants have used; the system counts in 10 ms."""
    return {name: sum(map(_seconds, tree(root))) for name, root in roots.items()}


def processor_seconds_since(before: Mapping[str, float], roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds that have been used since `processor_seconds` returned `before`."""
    return {name: used - before[name] for name, used in processor_seconds(roots).items()}


def exact_seconds(pid: int) -> float:
    """Return the processor seconds of one process, counted in nanoseconds, without its children."""
    threads = (_PROC / str(pid) / "task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def resident_bytes(root: int) -> int:
    """Return the memory that a process and its descendants hold at present."""
    return _memory(root, "VmRSS")


def peak_bytes(root: int) -> int:
    """Return the sum of the largest memory that a process and each of its descendants held since `forget_peaks`."""
    return _memory(root, "VmHWM")


def forget_peaks(root: int) -> bool:
    """Reset the peaks; return False if the system does not permit it."""
    try:
        for process in tree(root):
            (_PROC / str(process.pid) / "clear_refs").write_text("5")  # resets the peak
    except OSError:
        return False
    return True


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))  # user and system, its own and those of its ended children
    return 0.0


def _memory(root: int, line: str) -> int:
    total = 0
    for process in tree(root):
        with suppress(OSError):
            status = (_PROC / str(process.pid) / "status").read_text()
            total += sum(int(row.split()[1]) for row in status.splitlines() if row.startswith(f"{line}:")) * 1024
    return total
