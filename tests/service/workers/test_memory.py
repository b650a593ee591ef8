"""Allocator settings: large buffers are reused instead of being mapped and cleared each time."""

import platform
import subprocess
import sys

import pytest

from service.workers.worker import retain_freed_memory

_COUNTING = """
import resource, sys
from service.workers.worker import retain_freed_memory
configured = len(sys.argv) > 1 and retain_freed_memory()
def touch():
    for _ in range(50):
        bytearray(b"x" * 2_000_000)
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
touch()
print(configured, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*arguments: str) -> tuple[str, int]:
    """Return whether the allocator was configured, and the page faults of 100 buffers of 2 MB, in its own process."""
    ended = subprocess.run([sys.executable, "-c", _COUNTING, *arguments], capture_output=True, text=True, check=True)  # noqa: S603 - our own text
    configured, count = ended.stdout.split()
    return configured, int(count)


def test_freed_memory_is_retained_with_glibc() -> None:
    is_glibc = platform.libc_ver()[0] == "glibc"
    configured, kept = faults("configure")
    assert configured == str(is_glibc)
    _, usual = faults()
    # By default each buffer of 2 MB costs hundreds of faults.
    assert kept <= usual / 20 if is_glibc else kept <= 2 * usual + 100


def test_an_unsupported_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.workers.worker.ctypes.CDLL", object)
    assert retain_freed_memory() is False


_COLLECTING = """
import gc
from service.workers.worker import tune_garbage_collector
tune_garbage_collector()
print(gc.get_freeze_count() > 1000, gc.get_threshold()[0])
"""


def test_startup_objects_are_frozen_and_collections_are_rare() -> None:
    ended = subprocess.run([sys.executable, "-c", _COLLECTING], capture_output=True, text=True, check=True)  # noqa: S603 - our own text
    assert ended.stdout.split() == ["True", "20000"]
