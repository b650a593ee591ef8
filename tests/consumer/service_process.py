"""`brokerage serve` as a process, and what it says it holds."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
import orjson

from brokerage_feed.messages import SnapshotRecord
from mappings import LISTING, OFFICE, Resource
from tests.consumer.conftest import COMMAND
from tests.feed.feed_client import ConsumerCopy
from tests.indexer.conftest import Bench
from tests.neighbours import steady_port

FOLLOWED = (LISTING, OFFICE)
ON_MARKET = {"market_status": "on-market"}
# Company, sequence, content and the record as it came.
Held = dict[str, tuple[str, int, str, bytes]]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a command: nothing but `changes` decides what it does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    return {**kept, **changes}


@dataclass
class ServiceProcess:
    """`brokerage serve` as a process that writes its access log into a file."""

    url: str
    key: str
    log: Path

    def requests(self) -> Counter[tuple[str, int]]:
        """Return how many requests of each route were answered with each status."""
        lines = [orjson.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1] if b'"route"' in line]
        return Counter((line["route"], line["status"]) for line in lines)

    async def get(self, path: str) -> bytes:
        async with (
            aiohttp.ClientSession(headers={"x-api-key": self.key}) as session,
            session.get(f"{self.url}/v1/{path}", params=ON_MARKET) as answer,
        ):
            body = await answer.read()
            assert answer.status == HTTPStatus.OK, body
            return body

    async def settled(self) -> None:
        """Return once everything searchable is published."""
        async with asyncio.timeout(60):
            for resource in FOLLOWED:
                while orjson.loads(await self.get(f"digest/{resource.alias}"))["unsettled"]:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.2)

    async def holds(self, resource: Resource) -> Held:
        """Return what a snapshot says, which its digest must bear out."""
        _, *lines, last = (await self.get(f"snapshot/{resource.alias}")).splitlines()
        records = [msgspec.json.decode(line, type=SnapshotRecord) for line in lines]
        held = {one.id: (one.company, one.sequence, one.content, bytes(one.record)) for one in records}
        logged = orjson.loads(last)
        assert ConsumerCopy.digest({name: (one[2], {}) for name, one in held.items()}) == (
            logged["count"],
            logged["digest"],
        )
        return held


@asynccontextmanager
async def run_service(bench: Bench, key: str, log: Path) -> AsyncIterator[ServiceProcess]:
    """Run the service with its defaults until it is left."""
    port = steady_port()
    given = environment(ELASTICSEARCH_URL=bench.connection.url[0], BROKERAGE_INDEX_PREFIX=bench.connection.prefix)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(COMMAND, "serve", "--port", str(port)), env=given, stdout=out, stderr=out
        )
    try:
        await _ready(f"http://127.0.0.1:{port}/readyz")
        yield ServiceProcess(f"http://127.0.0.1:{port}", key, log)
        assert process.returncode is None
    finally:
        process.kill()
        await process.wait()


async def _ready(url: str) -> None:
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
