"""Loaded data behind an index prefix of its own, a key, and services as separate processes on them."""

import asyncio
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import Program, ending
from cluster.connection import ConnectionSettings, connect
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from mappings import RESOURCES, Resource
from sample import write_source
from service.keys.store import KeyGrant, KeyStore
from tests.conftest import remove_indices
from tests.neighbours import steady_port

COMMAND = str(Path(sys.executable).with_name("brokerage"))
_START_SECONDS = 180  # a busy machine is not a defect
_STOP_SECONDS = 60


@dataclass(frozen=True)
class RunningServe(Program):
    """A running `brokerage serve` and its log; the address has no trailing slash."""

    log: Path

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    async def ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until it is ready; raise RuntimeError with its log if it exits before that."""
        try:
            await super().ready(seconds)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {self.log.read_text()}") from error


@dataclass(frozen=True)
class LoadedCluster:
    """Data behind an index prefix of its own, and a key that may read all of it."""

    connection: ConnectionSettings
    source: Path  # the folder that the data was loaded from, as `brokerage sample` writes it
    key: str

    @asynccontextmanager
    async def service(
        self, *options: str, urls: Sequence[str] = (), port: int | None = None, **settings: object
    ) -> AsyncIterator[RunningServe]:
        """Run `brokerage serve` with options, and with other addresses than those of the cluster if given.

        `settings` are those of the service without `BROKERAGE_`, in small letters. It is ready when this is entered.
        """
        port = port or steady_port()
        changes = {
            "ELASTICSEARCH_URL": ",".join(urls or self.connection.url),
            "BROKERAGE_INDEX_PREFIX": self.connection.prefix,
            # All readers share one key.
            "BROKERAGE_KEY_CONCURRENCY": "0",
            **{f"BROKERAGE_{name.upper()}": str(value) for name, value in settings.items()},
        }
        with tempfile.NamedTemporaryFile(suffix=".log") as log:
            process = await asyncio.create_subprocess_exec(
                *(COMMAND, "serve", "--port", str(port), *options),
                env={**os.environ, **changes},
                stdout=log.fileno(),
                stderr=subprocess.STDOUT,
            )
            serving = RunningServe(f"http://127.0.0.1:{port}", process, Path(log.name))
            async with ending(process, _STOP_SECONDS):
                await serving.ready()
                yield serving


@asynccontextmanager
async def load_cluster(
    urls: Sequence[str], listings: int, shards: Sequence[str] = ("1",), resources: Sequence[Resource] = RESOURCES
) -> AsyncIterator[LoadedCluster]:
    """Load generated records behind an index prefix; delete them afterwards. `shards` is as in BROKERAGE_SHARDS."""
    connection = ConnectionSettings(url=tuple(urls), prefix=f"chaos{secrets.token_hex(4)}-")
    with tempfile.TemporaryDirectory(prefix="brokerage-chaos-") as name:
        source = Path(name) / "source"
        write_source(source, listings)
        async with connect(connection, connections=8, timeout=120) as client:
            settings = IndexerSettings(dead_letter_folder=str(Path(name) / "dead-letters"), shards=tuple(shards))
            with open_source(str(source)) as opened:
                context = IndexerContext(client, connection, settings)
                summary = await reindex(context, opened, RebuildRequest(resources))
            if summary.exit_code:
                raise RuntimeError("The generated data was not loaded.")
            key = await KeyStore(client, connection.keys_index).create(KeyGrant("chaos", all_companies=True, rate=None))
            yield LoadedCluster(connection, source, key.reveal())
            await remove_indices(client.options(max_retries=len(urls)), connection.prefix)  # a node may be down
