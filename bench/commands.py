"""Runs commands of the product, and returns what they took."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from bench.programs import COMMAND

# The system counts the peak of a process from that of its parent, so a small process starts what is measured.
_STARTER = """
import os, sys
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
code = os.waitstatus_to_exitcode(status)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss, file=open(int(sys.argv[1]), "w"))
"""


class Used(NamedTuple):
    """What a command took: seconds, seconds of the processor, and bytes of memory at most."""

    seconds: float
    processor: float
    memory: int


class MeasuredCommand:
    """A run of `brokerage ARGUMENTS`."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], output: int = subprocess.DEVNULL) -> None:
        """Start it with more environment variables; `output` is that of `subprocess.Popen`."""
        self._name, self._started = " ".join(arguments), time.perf_counter()
        self._measured, written = os.pipe()
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-S", "-c", _STARTER, str(written), str(COMMAND), *arguments],
            env=os.environ | environment,
            stdout=output,
            pass_fds=[written],
        )
        os.close(written)

    def wait(self) -> Used:
        """Return what it took; raise SystemExit if it failed."""
        with os.fdopen(self._measured) as file:
            code, processor, kilobytes = file.read().split() or ("-1", "0", "0")
        self.process.wait()
        if code != "0":
            raise SystemExit(f"brokerage {self._name} ended with {code}.")
        return Used(time.perf_counter() - self._started, float(processor), int(kilobytes) * 1024)
