"""The least that a program between two sockets can cost: `python -m bench.relay [--pages N]`.

Bytes of a page are received from one connection into one buffer and sent over another, without a look at them and
with no event loop: what is left is the system's own work. Printed is the processor time for a page and for a gigabyte.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# A page of 200 as Elasticsearch answers it, and as it is sent on.
_RECEIVED_BYTES = 1_440_000
_SENT_BYTES = 1_305_000
_ASK = b"?"


def _give(listening: socket.socket, pages: int) -> None:
    """Answer each request with a page."""
    connection, _ = listening.accept()
    page = bytes(_RECEIVED_BYTES)
    for _ in range(pages):
        connection.recv(1)
        connection.sendall(page)


def _relay(upstream: int, listening: socket.socket, pages: int, told: Connection) -> None:
    """Pass pages on, and tell the processor seconds of that."""
    source = socket.create_connection(("127.0.0.1", upstream))
    partner, _ = listening.accept()
    buffer = memoryview(bytearray(_RECEIVED_BYTES))
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(pages):
        partner.recv(1)
        source.send(_ASK)
        _fill(source, buffer)
        partner.sendall(buffer[:_SENT_BYTES])
    after = resource.getrusage(resource.RUSAGE_SELF)
    told.send((after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime))


def _fill(source: socket.socket, buffer: memoryview) -> None:
    filled = 0
    while filled < len(buffer):
        filled += source.recv_into(buffer[filled:])


def _take(port: int, pages: int) -> None:
    """Ask for pages and read them."""
    partner = socket.create_connection(("127.0.0.1", port))
    buffer = memoryview(bytearray(_SENT_BYTES))
    for _ in range(pages):
        partner.send(_ASK)
        _fill(partner, buffer)


def seconds(pages: int) -> float:
    """Return the processor seconds of a relay for so many pages; three processes, as in the other measurements."""
    giving, relaying = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    told, telling = multiprocessing.Pipe(duplex=False)
    ports = [each.getsockname()[1] for each in (giving, relaying)]
    workers = [
        multiprocessing.Process(target=_give, args=(giving, pages)),
        multiprocessing.Process(target=_relay, args=(ports[0], relaying, pages, telling)),
        multiprocessing.Process(target=_take, args=(ports[1], pages)),
    ]
    for worker in workers:
        worker.start()
    found: float = told.recv()
    for worker in workers:
        worker.join()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=500)
    pages = parser.parse_args().pages
    found = seconds(pages)
    print(
        f"{found / pages * 1000:.2f} ms of processor time a page, {found / pages / _SENT_BYTES * 1e9:.2f} s a gigabyte"
    )


if __name__ == "__main__":
    main()
