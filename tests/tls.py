"""TLS before a real Elasticsearch, which has none itself here: a forwarder with certificates made for the test."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trustme

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from trustme import LeafCert


def fingerprint(pem: bytes) -> str:
    """Return the SHA-256 of a certificate as Elasticsearch prints it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()


class Authority:
    """An authority that signs, whose certificate servers show beside their own, as Elasticsearch does."""

    def __init__(self, folder: Path) -> None:
        """Keep the certificate in a file of the folder."""
        self.ca = trustme.CA()
        self.path = str(folder / "authority.pem")
        self.ca.cert_pem.write_to_path(self.path)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its certificate."""
        return fingerprint(self.ca.cert_pem.bytes())

    def server(self, leaf: LeafCert) -> ssl.SSLContext:
        """Return what a server with this certificate shows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        chain = b"".join(blob.bytes() for blob in (*leaf.cert_chain_pems, self.ca.cert_pem))
        with trustme.Blob(leaf.private_key_pem.bytes() + chain).tempfile() as path:
            context.load_cert_chain(path)
        return context


@dataclass
class Forwarder:
    """What came through."""

    url: str = ""
    handshakes: int = 0
    passed: int = 0  # requests
    heads: list[bytes] = field(default_factory=list)  # the first lines of those not looked at yet


@asynccontextmanager
async def forwarding(target: str, certificate: ssl.SSLContext) -> AsyncIterator[Forwarder]:
    """Pass on what comes over TLS to the node at an address such as `http://127.0.0.1:9200`."""
    seen, node, links = Forwarder(), urlsplit(target), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.add(task := asyncio.current_task())  # type: ignore[arg-type]  # a task by now
        seen.handshakes += 1
        to_node = await asyncio.open_connection(node.hostname, node.port)
        try:
            with suppress(asyncio.CancelledError, OSError):
                await asyncio.gather(_carry(reader, to_node[1], note), _carry(to_node[0], writer))
        finally:
            writer.transport.abort()
            to_node[1].transport.abort()
            links.discard(task)

    def note(read: bytes) -> None:
        first = read.partition(b"\r\n")[0]
        if first.endswith(b" HTTP/1.1"):
            seen.passed += 1
            seen.heads.append(first)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate)
    seen.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield seen
    finally:
        server.close()
        for link in [*links]:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


@contextmanager
def forwarding_meanwhile(target: str, certificate: ssl.SSLContext) -> Iterator[Forwarder]:
    """Do the same in a thread, for tests that run commands within this one."""
    begun, seen, over = threading.Event(), list[Forwarder](), asyncio.Event()

    async def serve() -> None:
        async with forwarding(target, certificate) as forwarder:
            seen.append(forwarder)
            begun.set()
            await over.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(serve(),))
        thread.start()
        begun.wait()
        try:
            yield seen[0]
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None] | None = None
) -> None:
    while read := await reader.read(65_536):
        if note is not None:
            note(read)
        writer.write(read)
        await writer.drain()
    writer.transport.abort()
