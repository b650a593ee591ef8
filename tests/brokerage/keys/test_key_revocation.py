"""A key over several workers: good on each the moment it is created, refused by each soon after it is revoked."""

import asyncio
import re
import statistics
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.keys.store import KeyGrant, KeyStore
from tests.brokerage.conftest import running
from tests.brokerage.test_serve import _wait_for

_ASK_EVERY_SECONDS = 0.02
_PATIENCE_SECONDS = 60
_LOOKS = 100  # at the kernel's table of connections
# An unknown parameter is judged behind the key, and needs no index of records.
_ACCEPTED, _REFUSED = 400, 401


@dataclass
class WorkerConnection:
    """A kept connection to one worker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def status(self, key: str) -> int:
        self.writer.write(f"GET /v1/companies?nothing=1 HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        await self.reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        return int(head[9:12])

    def inode(self) -> str:
        """Return the inode of the worker's end."""
        # The table may change while it is read, and then lists a connection twice, or not at all.
        inodes: set[str] = set()
        for _ in range(_LOOKS):
            if inodes := self._inodes():
                break
        (inode,) = inodes
        return inode

    def _inodes(self) -> set[str]:
        ours, theirs = (self.writer.get_extra_info(name)[1] for name in ("sockname", "peername"))
        ends = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {end[9] for end in ends if (end[1][-4:], end[2][-4:]) == (f"{theirs:04X}", f"{ours:04X}")}


async def _links(port: int, workers: Collection[int]) -> AsyncIterator[WorkerConnection]:
    """Connect until there is one connection to each worker; the kernel chooses who gets one."""
    reached: set[int] = set()
    while len(reached) < len(workers):
        link = WorkerConnection(*await asyncio.open_connection("127.0.0.1", port))
        await link.status("")
        (worker,) = [pid for pid in workers if f"socket:[{link.inode()}]" in _open_files(pid)]
        if worker in reached:
            link.writer.close()
        else:
            reached.add(worker)
            yield link


def _open_files(pid: int) -> set[str]:
    return {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}


async def _refusal(link: WorkerConnection, key: str) -> float:
    """Return the moment at which a worker was found to refuse a key."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while await link.status(key) == _ACCEPTED:  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(_ASK_EVERY_SECONDS)
    return time.monotonic()


async def test_every_worker_follows_creation_at_once_and_revocation_soon(
    client: AsyncElasticsearch,
    connection: ConnectionSettings,
    on_engine: dict[str, str],
    amount: Callable[[int, int], int],
) -> None:
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    delays: list[float] = []
    # In full with the default settings.
    fresh, stale = amount(1, 4) / 2, amount(1, 4)
    workers = amount(2, 4)
    environment = {**on_engine, "BROKERAGE_FRESH_SECONDS": str(fresh), "BROKERAGE_STALE_SECONDS": str(stale)}
    with running("serve", "--port", "0", "--workers", str(workers), environment=environment) as service:
        port = int(re.findall(r":(\d+)/v1", service.read_until("Ctrl-C stops\n"))[0])
        await asyncio.to_thread(_wait_for, port)
        links = [link async for link in _links(port, await asyncio.to_thread(service.workers, workers))]
        for attempt in range(amount(2, 50)):
            text = await store.create(KeyGrant("short-lived", all_companies=True, rate=None))
            key = text.reveal()
            assert {await link.status(key) for link in links} == {_ACCEPTED}
            # The last attempt ended when a worker renewed its keys: begin at any other phase.
            await asyncio.sleep(0.37 * attempt % fresh)
            begun = time.monotonic()
            await store.revoke(text.key_id)
            delays += [max(await asyncio.gather(*(_refusal(link, key) for link in links))) - begun]
            assert {await link.status(key) for link in links} == {_REFUSED}
        for link in links:
            link.writer.close()
    print(f"revocation over {workers} workers, {len(delays)} tries: {max(delays):.2f} s at most,", end=" ")
    print(f"{statistics.median(delays):.2f} s in the median")
