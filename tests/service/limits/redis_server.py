"""A real Redis for the tests, which may be stopped, killed and started again."""

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.neighbours import steady_port

_PATIENCE_SECONDS = 30.0
_ABSENT = (
    "redis-server is not installed: `apt-get install redis-server` or `brew install redis` (tests need a real one)."
)


class RedisServer:
    """A `redis-server` of its own port and folder, without files."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail(_ABSENT)
        self._port = steady_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._command = [program, "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; behind SIGKILL it is gone when this returns."""
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait()

    def stop(self) -> None:
        """End it, in whatever state it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as opened:
                opened.sendall(b"PING\r\n")
                return opened.recv(7) == b"+PONG\r\n"
        except OSError:
            return False
