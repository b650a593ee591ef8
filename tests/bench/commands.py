"""Starts modules of the bench as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parent.parent.parent


@contextmanager
def running(module: str, *arguments: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a module with its output readable, the environment added to this one's, and stop it afterwards."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, env=os.environ | environment, cwd=_ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def line_with(process: subprocess.Popen[str], word: str) -> str:
    """Return the first line of the output that holds a word; fail with the output when the process ends before."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line.strip()
        lines.append(line)
    raise AssertionError("".join(lines))
