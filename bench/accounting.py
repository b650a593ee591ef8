"""What the system says of processes and all their descendants: processor seconds and memory, from `/proc`."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One line of the process table; `seconds` are those of the processor, its ended children's included."""

    pid: int
    parent: int
    seconds: float


def tree(root: int) -> list[Process]:
    """Return a process and all its descendants, as they are now."""
    return _descendants(_everyone(), root)


def processor_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds that each process and its descendants have used; the system counts in 10 ms."""
    everyone = _everyone()
    return {
        name: sum(descendant.seconds for descendant in _descendants(everyone, root)) for name, root in roots.items()
    }


def processor_seconds_since(before: Mapping[str, float], roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds that have been used since `processor_seconds` returned `before`."""
    return {name: used - before[name] for name, used in processor_seconds(roots).items()}


def exact_seconds(pid: int) -> float:
    """Return the processor seconds of one process, counted in nanoseconds, without its children."""
    threads = (_PROC / str(pid) / "task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _everyone() -> list[Process]:
    names = [path.name for path in _PROC.iterdir() if path.name.isdigit()]
    return [found for name in names if (found := _process(name)) is not None]


def _descendants(everyone: Sequence[Process], root: int) -> list[Process]:
    chosen = {root}
    # A child may have a smaller number than its parent, so one pass is not enough.
    while more := {process.pid for process in everyone if process.parent in chosen} - chosen:
        chosen |= more
    return [process for process in everyone if process.pid in chosen]


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


def _process(name: str) -> Process | None:
    try:
        text = (_PROC / name / "stat").read_text()
    except OSError:
        return None  # it has exited meanwhile
    # The name in brackets may hold anything, brackets and blanks too.
    values = text.rpartition(")")[2].split()
    ticks = sum(int(value) for value in values[11:15])
    return Process(int(name), int(values[1]), ticks / _TICK)


def _memory(root: int, line: str) -> int:
    total = 0
    for process in tree(root):
        with suppress(OSError):
            status = (_PROC / str(process.pid) / "status").read_text()
            total += sum(int(row.split()[1]) for row in status.splitlines() if row.startswith(f"{line}:")) * 1024
    return total
