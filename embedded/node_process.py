"""Control of a node process: start, signals, exit and its reason."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import msgspec

from embedded.errors import EmbeddedNodeError
from embedded.node_launch import NodeAddress, NodeLaunch
from embedded.node_options import HEAP_SETTING

_TAIL: Final = 200_000  # bytes at the end of the log that are searched for known failures

# Log messages of Elasticsearch or Java, and their meaning; the first match is reported.
_KNOWN_FAILURES: Final = (
    (r"BindHttpException|BindTransportException|Address already in use", "its port is in use: choose another --port"),
    (
        r"Could not reserve enough space|insufficient memory|Cannot allocate memory|OutOfMemoryError",
        f"there is too little memory: lower {HEAP_SETTING} or close other programs",
    ),
    (
        r"failed to obtain node lock|LockObtainFailed",
        "another node uses the same data: stop it or choose another data folder",
    ),
    (r"No space left on device", "the disk is full: free space or choose another data folder"),
    (
        r"CorruptStateException|CorruptIndexException",
        "its data is damaged: choose another data folder or remove that folder",
    ),
    (r"unknown setting \[(?P<name>[^\]]+)\]", "Elasticsearch has no setting {name}: correct the name"),
)
_PORT_FAILURE: Final = re.compile(_KNOWN_FAILURES[0][0])


class NodeProcess:
    """The process of a node, which ends when this program ends."""

    def __init__(self, launch: NodeLaunch, address: NodeAddress, log: Path, keep_open: int) -> None:
        self.address = address
        self.name = address.name
        self.url = address.url
        self.log = log
        self._started_with = (launch, address, log, keep_open)
        self._draft = launch.archive_draft
        _rotate(log)
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "embedded.node_main", msgspec.json.encode(launch).decode()],
                stdin=subprocess.PIPE,  # never written to: end of file means that this program has ended
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env=_environment(),
                pass_fds=[keep_open],
                umask=0o077,  # its data and logs hold records
                start_new_session=True,  # Ctrl-C reaches this program only, which stops its nodes gracefully
            )

    @property
    def pid(self) -> int:
        """The process number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if a signal ended it."""
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        self._process.send_signal(number)

    def request_stop(self) -> None:
        """Request a graceful shutdown; a stopped process is continued for it."""
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)

    def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds, then kill the process."""
        try:
            self._process.wait(max(timeout, 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._draft is not None:
            Path(self._draft).unlink(missing_ok=True)

    def restarted(self) -> Self:
        """The same node in a new process, on the same data and ports; raises RuntimeError while this one runs."""
        if self.exit_code is None:
            raise RuntimeError(f"{self.name} still runs")
        self.finish(0)
        return type(self)(*self._started_with)

    @property
    def is_port_taken(self) -> bool:
        """Whether it ended because its port was in use."""
        return _PORT_FAILURE.search(self._log_text()) is not None

    def failure(self) -> EmbeddedNodeError:
        """Why it ended, in one sentence."""
        reason = next(filter(None, map(self._explain, _KNOWN_FAILURES)), f"it ended {self.describe_end()}")
        return EmbeddedNodeError(f"{self.name} cannot run, {reason} (details: {self.log})", self.log)

    def describe_end(self) -> str:
        """How it ended, as a phrase that follows "it ended"."""
        code = self.exit_code
        if code is not None and code < 0:
            return f"by {signal.Signals(-code).name}"
        return f"with exit code {code}"

    def _explain(self, failure: tuple[str, str]) -> str | None:
        pattern, meaning = failure
        found = re.search(pattern, self._log_text())
        return meaning.format(**found.groupdict()) if found else None

    def _log_text(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            return file.read().decode(errors="replace")


def _rotate(log: Path) -> None:
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))


def _environment() -> dict[str, str]:
    """The environment of this program, with its packages on PYTHONPATH."""
    packages = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [packages, inherited]))}
