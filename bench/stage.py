"""What a measurement runs on: a node, sample data, the service as a process of its own, a key."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from embedded.ports import free_ports
from indexer import Engine, IndexerSettings, open_source, reindex
from sample import write_source
from service.keys.store import Grant, KeyStore

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "bench-"
_START_SECONDS = 60
_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Stage:
    """Where the arms ask: Elasticsearch itself, and the service over it."""

    connection: ConnectionSettings
    service_url: str
    key: str


@contextmanager
def staged(listings: int) -> Iterator[Stage]:
    """Set everything up on an embedded node, and take it down again."""
    with EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        connection = ConnectionSettings(url=(cluster.url,), prefix=_PREFIX)
        key = asyncio.run(_load(connection, listings))
        with _service(connection) as url:
            yield Stage(connection, url, key)


async def _load(connection: ConnectionSettings, listings: int) -> str:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS) as client:
        with tempfile.TemporaryDirectory() as folder:
            write_source(Path(folder) / "source", listings)
            with open_source(str(Path(folder) / "source")) as source:
                await reindex(Engine(client, connection, IndexerSettings()), source)
        text = await KeyStore(client, connection.keys_index).create(Grant("bench", all_companies=True))
        return text.reveal()


@contextmanager
def _service(connection: ConnectionSettings) -> Iterator[str]:
    [port] = free_ports(1)
    environment = {**os.environ, "ELASTICSEARCH_URL": connection.url[0], "BROKERAGE_INDEX_PREFIX": connection.prefix}
    command = [str(Path(sys.executable).with_name("brokerage")), "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    try:
        asyncio.run(_answering(f"http://127.0.0.1:{port}/readyz"))
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


async def _answering(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)
