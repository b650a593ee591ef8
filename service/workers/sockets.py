"""Listening sockets, bound before anything else and inherited by replacement workers.

Each worker has its own socket with SO_REUSEPORT, so that the kernel distributes connections. Of 64 simultaneous
connections, one worker got up to 64 with a shared socket, and at most 40 with separate ones.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from service.settings import ServiceSettings

# Errors of a machine without IPv6, where a name such as localhost may still resolve to an IPv6 address.
_UNAVAILABLE_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


_METRICS_REMEDY = "BROKERAGE_METRICS_PORT or BROKERAGE_METRICS_HOST"


class ListenError(OSError):
    """An address is in use or does not belong to this machine; the text names it and what to change."""


@dataclass(frozen=True)
class ListenSockets:
    """The sockets of one worker, one per address of the host."""

    api: tuple[socket.socket, ...]
    metrics: tuple[socket.socket, ...] = ()

    @property
    def port(self) -> int:
        """The port of the API; the assigned one if 0 was configured."""
        return int(self.api[0].getsockname()[1])

    def close(self) -> None:
        """Close this process's handles; a socket stays open while another process has one."""
        _close((*self.api, *self.metrics))


def bind_sockets(settings: ServiceSettings) -> list[ListenSockets]:
    """Bind the sockets of every worker, all to the same port of the API; raise ListenError.

    They accept no connections until a worker listens.
    """
    if not settings.share_port:
        # Otherwise a second service would share the requests of the first.
        _close(_open(settings.host, settings.port, "--port", probe=True))
    with ExitStack() as stack:
        listeners: list[ListenSockets] = []
        for slot in range(settings.workers):
            listeners.append(bind_worker_sockets(slot, settings))
            stack.callback(listeners[-1].close)
            settings = replace(settings, port=listeners[-1].port)
        stack.pop_all()
    return listeners


def bind_worker_sockets(slot: int, settings: ServiceSettings) -> ListenSockets:
    """Bind the sockets of one worker; slots are numbered from 0."""
    api = _open(settings.host, settings.port, "--port", share=settings.workers > 1 or settings.share_port)
    try:
        return ListenSockets(api, _metrics(slot, settings))
    except ListenError:
        _close(api)
        raise


def _metrics(slot: int, settings: ServiceSettings) -> tuple[socket.socket, ...]:
    if not settings.metrics_port:
        return ()
    # Workers share the port of the API, but each has its own metrics port.
    host, port, remedy = settings.metrics_host, settings.metrics_port + slot, _METRICS_REMEDY
    if not settings.share_port:
        _close(_open(host, port, remedy, probe=True))
    return _open(host, port, remedy, share=settings.share_port)


def _open(host: str, port: int, remedy: str, *, share: bool = False, probe: bool = False) -> tuple[socket.socket, ...]:
    try:
        with ExitStack() as stack:
            opened = tuple(map(stack.enter_context, _bind_all(host, port, share=share, probe=probe)))
            stack.pop_all()
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        shown = f"[{host}]" if ":" in host else host or "*"
        raise ListenError(f"Cannot listen on {shown}:{port}: {reason}. Choose another {remedy}.") from error
    return opened


def _bind_all(host: str, port: int, *, share: bool, probe: bool) -> Iterator[socket.socket]:
    """Bind a socket for each address of the host that this machine has, all to the same port."""
    addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    failure: OSError | None = None
    count = 0
    for family, _, _, _, (name, _, *rest) in dict.fromkeys(addresses):
        try:
            bound = _bind(family, (name, port, *rest), share=share, probe=probe)
        except OSError as error:
            if error.errno not in _UNAVAILABLE_ADDRESS:
                raise
            failure = error
            continue
        count, port = count + 1, bound.getsockname()[1]
        yield bound
    if not count and failure is not None:
        raise failure


def _bind(family: int, address: tuple[str | int, ...], *, share: bool, probe: bool) -> socket.socket:
    with ExitStack() as stack:
        opened = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if share:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(address)
        if probe:
            # Fails if another process has bound the port and is about to listen.
            opened.listen()
        opened.settimeout(0)
        stack.pop_all()
    return opened


def _close(sockets: tuple[socket.socket, ...]) -> None:
    for opened in sockets:
        opened.close()
