"""The sockets that the service listens on: opened before anything else, and handed from one worker to the next.

Each worker has a socket of its own with SO_REUSEPORT, so that the kernel spreads connections evenly. One socket for all
gave up to 64 of 64 connections that came together to the same worker; these gave it at most 40.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.settings import ServiceSettings

# What a machine says that lacks IPv6, of which a name such as localhost has an address all the same.
_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class CannotListen(OSError):
    """An address is taken or is none of this machine; the text says which, and what to change."""


@dataclass(frozen=True)
class Listeners:
    """What one worker listens on, a socket for each address of the host."""

    api: tuple[socket.socket, ...]
    metrics: tuple[socket.socket, ...] = ()

    @property
    def port(self) -> int:
        """The port of the API, the chosen one where 0 was asked for."""
        return int(self.api[0].getsockname()[1])

    def close(self) -> None:
        """Close this process's handles; a socket goes on while another process has one."""
        for opened in (*self.api, *self.metrics):
            opened.close()


def listen(settings: ServiceSettings) -> list[Listeners]:
    """Bind the sockets of every worker, all to one port of the API. Raise CannotListen where one cannot be had.

    Nothing waits in them before a worker listens.
    """
    if not settings.share_port:
        # A second service would otherwise join the first, and share its requests.
        _close(_open(settings.host, settings.port, "--port", probe=True))
    with ExitStack() as stack:
        listeners: list[Listeners] = []
        for slot in range(settings.workers):
            listeners.append(listen_as(slot, settings))
            stack.callback(listeners[-1].close)
            settings = replace(settings, port=listeners[-1].port)
        stack.pop_all()
    return listeners


def listen_as(slot: int, settings: ServiceSettings) -> Listeners:
    """Bind the sockets of one worker; `slot` counts from 0."""
    api = _open(settings.host, settings.port, "--port", share=settings.workers > 1 or settings.share_port)
    try:
        return Listeners(api, _metrics(slot, settings))
    except CannotListen:
        _close(api)
        raise


def _metrics(slot: int, settings: ServiceSettings) -> tuple[socket.socket, ...]:
    if not settings.metrics_port:
        return ()
    # Workers share the port of the API but not their metrics: each is asked for its own.
    port, remedy = settings.metrics_port + slot, "BROKERAGE_METRICS_PORT"
    if not settings.share_port:
        _close(_open(settings.host, port, remedy, probe=True))
    return _open(settings.host, port, remedy, share=settings.share_port)


def _open(host: str, port: int, remedy: str, *, share: bool = False, probe: bool = False) -> tuple[socket.socket, ...]:
    try:
        with ExitStack() as stack:
            opened = tuple(stack.enter_context(found) for found in _each(host, port, share=share, probe=probe))
            stack.pop_all()
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        shown = f"[{host}]" if ":" in host else host or "*"
        raise CannotListen(f"Cannot listen on {shown}:{port}: {reason}. Choose another {remedy}.") from error
    return opened


def _each(host: str, port: int, *, share: bool, probe: bool) -> Iterator[socket.socket]:
    """Bind a socket for each address of the host that this machine has, all to the same port."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    refused: OSError | None = None
    count = 0
    for family, _, _, _, (name, _, *rest) in dict.fromkeys(found):
        try:
            opened = _bound(family, (name, port, *rest), share=share, probe=probe)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            refused = error
            continue
        count, port = count + 1, opened.getsockname()[1]
        yield opened
    if not count and refused is not None:
        raise refused


def _bound(family: int, address: tuple[str | int, ...], *, share: bool, probe: bool) -> socket.socket:
    with ExitStack() as stack:
        opened = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if share:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(address)
        if probe:
            # Fails where somebody else is about to listen too.
            opened.listen()
        opened.settimeout(0)
        stack.pop_all()
    return opened


def _close(sockets: tuple[socket.socket, ...]) -> None:
    for opened in sockets:
        opened.close()
