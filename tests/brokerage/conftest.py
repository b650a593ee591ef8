"""The `brokerage` command as its users run it: a process of its own, its output, its exit code."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerage.command import main
from embedded.folders import cache_folder
from tests.processes import workers_of
from tests.waiting import wait_until

COMMAND = str(Path(sys.executable).with_name("brokerage"))
_PATIENCE_SECONDS = 120


class RunningCommand:
    """A command that runs until it is stopped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.output = ""

    def read_until(self, text: str) -> str:
        """Return all output up to `text` at least; fail when the command ends before it."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while text not in self.output:
                assert selector.select(deadline - time.monotonic()), f"{text!r} did not come: {self.output}"
                # Past Python's buffer, which select does not see.
                read = os.read(self.process.stdout.fileno(), 65536)
                assert read, f"ended without {text!r}: {self.output}"
                self.output += read.decode()
        return self.output

    def workers(self, count: int) -> set[int]:
        """Return the worker processes once so many have been set up."""
        wait_until(lambda: len(workers_of(self.process.pid)) == count)
        return workers_of(self.process.pid)

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=_PATIENCE_SECONDS)
        self.output += rest.decode()
        return self.process.returncode


@contextmanager
def running(*arguments: str, environment: dict[str, str]) -> Iterator[RunningCommand]:
    """Start `brokerage ARGUMENTS` as a group of its own; whatever happens, it and its workers are gone afterwards."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(environment),
        process_group=0,
    )
    try:
        yield RunningCommand(process)
    finally:
        # A worker that hangs would keep the pipe open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `brokerage ARGUMENTS` to its end."""
    return subprocess.run(  # noqa: S603 - our own command
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
        env=_environment(environment),
    )


def invoke(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `brokerage ARGUMENTS` within this process, which saves the imports of one of its own."""
    ended = CliRunner().invoke(main, arguments, env={"COLUMNS": "200", **environment})
    return subprocess.CompletedProcess(arguments, ended.exit_code, ended.stdout, ended.stderr)


def _environment(changes: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    return {**kept, "COLUMNS": "200", **changes}


@pytest.fixture
def own_cache(tmp_path: Path) -> dict[str, str]:
    """An environment with a cache folder of the test's own, less what would have to be downloaded again."""
    real = cache_folder()
    own = tmp_path / "cache" / "brokerage"
    own.mkdir(parents=True)
    for folder in real.glob("elasticsearch-*"):
        (own / folder.name).symlink_to(folder)
    return {"XDG_CACHE_HOME": str(own.parent)}


@pytest.fixture
def on_engine(engine_url: str, prefix: str) -> dict[str, str]:
    """An environment that selects Elasticsearch and an installation of its own."""
    return {"ELASTICSEARCH_URL": engine_url, "BROKERAGE_INDEX_PREFIX": prefix}
