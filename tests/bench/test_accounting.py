"""Processor time and memory of process trees, as the system counts them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.accounting import forget_peaks, peak_bytes, processor_seconds, resident_bytes, tree

# Each line that is read is a piece of work, done by the process itself and by a child that it started.
_WORKER = """
import subprocess, sys
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, "-c", sys.stdin.readline().replace("|", chr(10)), "child"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    print("ready", flush=True)
    for line in sys.stdin:
        child.stdin.write(line)
        child.stdin.flush()
        child.stdout.readline()
        print("done", flush=True)
"""
_CHILD = """
import sys
held = b""
print("ready", flush=True)
for line in sys.stdin:
    work, size = map(int, line.split())
    sum(number * number for number in range(work))
    held = bytearray(size)
    held[::4096] = b"x" * len(held[::4096])
    held = b""
    print("done", flush=True)
"""
_MB = 1_000_000


class Worker:
    """A process whose child works on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Begin with the child's program."""
        self.process = process
        self.pid = process.pid
        self._say(_CHILD.replace("\n", "|"))

    def work(self, numbers: int, held: int = 0) -> None:
        """Let the child add up numbers, then hold some bytes for a moment."""
        self._say(f"{numbers} {held}")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline()


@contextmanager
def working() -> Iterator[Worker]:
    """Run a worker."""
    command = [sys.executable, "-c", _WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own text
        yield Worker(process)
        assert process.stdin is not None
        process.stdin.close()


def _used(worker: Worker, numbers: int) -> float:
    before = processor_seconds({"worker": worker.pid})["worker"]
    worker.work(numbers)
    return processor_seconds({"worker": worker.pid})["worker"] - before


def test_the_time_of_a_child_counts_and_more_work_is_more_time() -> None:
    with working() as worker:
        little, much = _used(worker, 1_000_000), _used(worker, 8_000_000)
    assert 0 < little < much


def test_a_process_at_rest_uses_next_to_nothing_while_another_works() -> None:
    with working() as idle, working() as busy:
        roots = {"idle": idle.pid, "busy": busy.pid}
        before = processor_seconds(roots)
        busy.work(4_000_000)
        after = processor_seconds(roots)
    assert after["idle"] - before["idle"] < after["busy"] - before["busy"]


def test_children_of_children_belong_to_a_tree() -> None:
    shells = "sh -c 'sleep 100 & echo ready; wait' & wait"
    with subprocess.Popen(["/bin/sh", "-c", shells], stdout=subprocess.PIPE) as process:  # noqa: S603 - our own text
        assert process.stdout is not None
        process.stdout.readline()
        found = tree(process.pid)
        parents = {each.pid: each.ppid() for each in found}
        for each in found:
            each.kill()
    [leaf] = set(parents) - set(parents.values())
    assert len(found) == 3
    assert parents[parents[leaf]] == process.pid


def test_a_peak_is_remembered_until_it_is_forgotten() -> None:
    with working() as worker:
        idle = resident_bytes(worker.pid)
        worker.work(1, held=200 * _MB)
        assert peak_bytes(worker.pid) > idle + 190 * _MB
        assert resident_bytes(worker.pid) < idle + 100 * _MB
        assert forget_peaks(worker.pid)
        assert peak_bytes(worker.pid) < idle + 100 * _MB


def test_what_has_ended_uses_nothing() -> None:
    with working() as worker:
        pass
    assert processor_seconds({"worker": worker.pid}) == {"worker": 0}
    assert resident_bytes(worker.pid) == 0
