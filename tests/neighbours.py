"""Ports for processes: one, or two in a row for what takes a port and the next."""

import socket

from embedded.node_options import free_ports


def neighbours() -> tuple[int, int]:
    """Return two consecutive free ports."""
    while True:
        port = steady_port()
        if _is_free(port + 1):
            return port, port + 1


def steady_port() -> int:
    """Return a free port that stays free until a process that starts slowly listens on it."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
