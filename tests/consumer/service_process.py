"""`brokerage serve` as a process."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import orjson

from tests.consumer.conftest import COMMAND
from tests.indexer.conftest import Bench
from tests.neighbours import steady_port


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
        """Return a response about what is on the market."""
        async with (
            aiohttp.ClientSession(headers={"x-api-key": self.key}) as session,
            session.get(f"{self.url}/v1/{path}", params={"market_status": "on-market"}) as answer,
        ):
            body = await answer.read()
            assert answer.status == HTTPStatus.OK, body
            return body


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
            with suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            await asyncio.sleep(0.1)
