"""How long a key goes on receiving after it was withdrawn, over several workers, by the kind of its response."""

import asyncio
import re
import socket
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
from aiohttp import ClientSession

from mappings import COMPANY, LISTING, RESOURCES
from service.keys.store import KeyGrant, KeyStore
from service.publishing.publisher import publish
from service.publishing.target import TargetFolder
from service.settings import ServiceSettings
from tests.brokerage.conftest import running
from tests.brokerage.test_serve import _wait_for
from tests.exports.conftest import Silence
from tests.feed.feed_client import company
from tests.indexer.conftest import Bench, Lines, bench
from tests.security.withdrawals import BUFFER_BYTES, LISTINGS, WITHDRAWALS, Change, listing

__all__ = ["bench"]

_KEYS_AT_A_TIME = 5
# A client reads some 40 KB a second: none of the bodies ends within the time of a trial.
_READ_BYTES, _READ_EVERY_SECONDS = 8_192, 0.2
_CHANGE_EVERY_SECONDS = 0.5
_CHANGES = ("revoked", "expired", "scope", "fields", "licence")
_DOWNLOAD = "file"
_BODIES = {"page": "/v1/listings?platform_company_id=a&updated_since=1", "snapshot": "/v1/snapshot/listings"}


async def read_slowly(port: int, key: str, path: str, begun: asyncio.Event, may_go_on: asyncio.Event) -> float:
    """Begin to read a response, then read on slowly until it ends, which must be early; return when the last came."""
    loop, last = asyncio.get_running_loop(), 0.0
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, f"GET {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n".encode())
        received = await loop.sock_recv(client, _READ_BYTES)
        begun.set()
        assert b" 200 " in received[:20], received
        await may_go_on.wait()
        length = re.search(rb"Content-Length: (\d+)", received)
        with suppress(ConnectionError):
            while piece := await loop.sock_recv(client, _READ_BYTES):
                received, last = received + piece, time.monotonic()
                await asyncio.sleep(_READ_EVERY_SECONDS)
    body = received.partition(b"\r\n\r\n")[2]
    assert len(body) < int(length[1]) if length else not body.endswith(b"\r\n0\r\n\r\n")
    return last


async def follow(http: ClientSession, url: str, key: str) -> float:
    """Follow the changes by long polls until a request is refused; return when the last were received."""
    last, token = 0.0, ""
    while True:
        query = {"wait": "30", "since": token} if token else {}
        async with http.get(f"{url}/v1/changes", params=query, headers={"x-api-key": key}) as answer:
            if answer.status != 200:
                assert answer.status in {401, 403, 410}
                return last
            token, last = orjson.loads(await answer.read())["next"], time.monotonic()


async def test_no_kind_of_response_goes_on_after_a_withdrawal(
    bench: Bench, on_engine: dict[str, str], tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    lines = {COMPANY: [company("a"), company("b")], LISTING: map(listing, range(LISTINGS))}
    empty: Lines = dict.fromkeys(RESOURCES, ())
    assert (await bench.build({**empty, **lines})).exit_code == 0
    await publish(bench.connection, ServiceSettings(), TargetFolder(tmp_path / "files"), ("a",), Silence())
    store = KeyStore(bench.client, bench.connection.keys_index, bench.connection.usage_index)
    await store.create(KeyGrant("first", all_companies=True))
    workers, trials, found = amount(2, 4), amount(5, 200), defaultdict[str, list[float]](list)
    # On a busy machine requests wait longer for a slot than the default; that is not what is measured.
    patient = {"BROKERAGE_DEADLINE_SECONDS": "300", "BROKERAGE_QUEUE_SECONDS": "60"}
    # All keys may come to one worker.
    quiet = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SNAPSHOTS": str(_KEYS_AT_A_TIME), **patient}
    environment = {**on_engine, **quiet, "BROKERAGE_EXPORTS": str(tmp_path / "files")}
    with running("serve", "--port", "0", "--workers", str(workers), environment=environment) as service:
        port = int(re.findall(r":(\d+)/v1", service.read_until("Ctrl-C stops\n"))[0])
        await asyncio.to_thread(_wait_for, port)
        publishing = asyncio.create_task(_publish_changes(bench))
        async with ClientSession() as http:
            for first in range(0, trials, _KEYS_AT_A_TIME):
                numbers = range(first, min(first + _KEYS_AT_A_TIME, trials))
                tried = [_try(SimpleNamespace(bench=bench, store=store), http, port, each) for each in numbers]
                for measured in await asyncio.gather(*tried):
                    for kind, seconds in measured.items():
                        found[kind].append(seconds)
        publishing.cancel()
    for kind, times in found.items():
        longest, median = max(times), statistics.median(times)
        print(
            f"{kind} over {workers} workers, {len(times)} tries: {longest:.2f} s at most, {median:.2f} s in the median"
        )


async def _publish_changes(bench: Bench) -> None:
    for price in range(2, 10**6):
        assert (await bench.update({LISTING: [listing(1, price)]})).exit_code == 0
        await asyncio.sleep(_CHANGE_EVERY_SECONDS)


async def _try(stage: Any, http: ClientSession, port: int, number: int) -> dict[str, float]:
    """Withdraw a key from clients that read; return by kind how long they went on, in seconds."""
    key = (await stage.store.create(KeyGrant("a", companies=("a",), rate=None))).reveal()
    url = f"http://127.0.0.1:{port}"
    async with http.get(f"{url}/v1/exports/listings", headers={"x-api-key": key}) as answer:
        paths = {**_BODIES, _DOWNLOAD: (await answer.json())["files"][0]["href"]}
    begun, may_go_on = {kind: asyncio.Event() for kind in paths}, asyncio.Event()
    reading = {
        kind: asyncio.create_task(read_slowly(port, key, path, begun[kind], may_go_on)) for kind, path in paths.items()
    }
    reading["changes"] = asyncio.create_task(follow(http, url, key))
    await asyncio.gather(*(each.wait() for each in begun.values()))
    # In any phase of what the workers do periodically.
    await asyncio.sleep(0.37 * number % 2)
    withdraw: Change = WITHDRAWALS[_CHANGES[number % len(_CHANGES)]][0]
    may_go_on.set()
    await withdraw(cast("Any", stage), key[3:13])
    # It is visible to all workers from now on.
    withdrawn = time.monotonic()
    return {kind: max(0.0, await task - withdrawn) for kind, task in reading.items()}
