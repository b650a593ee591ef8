"""Ports on the loopback address."""

import socket
from contextlib import ExitStack
from typing import Final

from embedded.errors import EmbeddedNodeError

HOST: Final = "127.0.0.1"
_HIGHEST: Final = 65535


def free_ports(count: int) -> list[int]:
    """Distinct ports that are currently free."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind((HOST, 0))
        return [free.getsockname()[1] for free in sockets]


def require_ports(first: int, count: int) -> list[int]:
    """`count` ports from `first` on; raise EmbeddedNodeError for the first that is in use."""
    ports = list(range(first, first + count))
    if ports[-1] > _HIGHEST:
        raise EmbeddedNodeError(
            f"port {first} leaves no room for {count} nodes below {_HIGHEST + 1}: choose a lower one"
        )
    for port in ports:
        _check(port)
    return ports


def _check(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EmbeddedNodeError(
                f"port {port} cannot be used ({error.strerror}): stop the program that uses it or choose another --port"
            ) from error
