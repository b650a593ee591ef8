"""Ports for processes: one, or two in a row for what takes a port and the next."""

import random
import socket

# Below those that the system gives to connections: between the look and the use no connection takes one of them.
_PORTS = range(20_000, 32_000)


def neighbours() -> tuple[int, int]:
    """Return two consecutive free ports."""
    while True:
        port = random.choice(_PORTS)  # noqa: S311 - no secret
        if _is_free(port) and _is_free(port + 1):
            return port, port + 1


def steady_port() -> int:
    """Return a free port that stays free until a process that starts slowly listens on it."""
    return neighbours()[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
