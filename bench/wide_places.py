"""An installation of `bench.wide`: loaded by the command line, and its running service."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from elasticsearch import AsyncElasticsearch

from bench.client import Answer, Connection, Pool, get
from bench.commands import MeasuredCommand, Used
from bench.programs import Program, service
from bench.wide_data import PARENT, Amount, write_data, write_keys
from cluster.connection import ConnectionSettings, connect
from mappings import SOLD_LISTING
from service.keys.store import KeyGrant, KeyStore

_RESOURCES = ("companies", "offices", "agents", "sold_listings")
_QUIET = {"BROKERAGE_ACCESS_LOG": "errors"}
_LOOK_SECONDS = 0.02
SMALL = f"companies/{PARENT}"


class Place(NamedTuple):
    """An installation, and the texts of a key for everything (`all`) and of one for the large parent (`parent`)."""

    connection: ConnectionSettings
    amount: Amount
    keys: dict[str, str]

    def run(self, *arguments: str, folder: Path | None = None) -> Used:
        """Run the command line; return what it took, or end. Unreadable lines go to the folder."""
        environment = {"ELASTICSEARCH_URL": self.connection.url[0], "BROKERAGE_INDEX_PREFIX": self.connection.prefix}
        environment |= {"BROKERAGE_DEAD_LETTER_DIR": str(folder / "dead")} if folder else {}
        return MeasuredCommand(*arguments, environment=environment).wait()

    async def start_seconds(self) -> float:
        """Return how long a service takes until it is ready."""
        started = time.perf_counter()
        async with service(self.connection.url[0], self.connection.prefix, settings=_QUIET) as program:
            await program.ready()
            return time.perf_counter() - started


class Served(NamedTuple):
    """A place and its running service."""

    place: Place
    program: Program
    connection: Connection
    engine: AsyncElasticsearch

    async def forget_answers(self) -> None:
        """Have Elasticsearch forget the answers that it keeps of searches without records, as an update would."""
        await self.engine.indices.clear_cache(index=f"{self.place.connection.prefix}*", request=True)

    async def get(self, path: str, key: str) -> Answer:
        """Send a request with a key, or one of the place's by name; return the answer, whatever its status."""
        headers = {"x-api-key": self.place.keys.get(key, key)}
        return await self.connection.ask(get(self.program.url, f"/v1/{path}", headers), keep=True)

    async def read(self, path: str, key: str) -> tuple[float, Answer]:
        """Return how many milliseconds a request took, and its answer; end unless that is 200."""
        started = time.perf_counter()
        answer = await self.get(path, key)
        taken = (time.perf_counter() - started) * 1e3
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {answer.body[:300]!r}")
        return taken, answer

    async def revocation_seconds(self) -> float:
        """Return the time from the revocation of a key that is in use until it is refused."""
        connection = self.place.connection
        async with connect(connection, connections=1, timeout=60) as client:
            store = KeyStore(client, connection.keys_index)
            text = await store.create(KeyGrant("revoked", all_companies=True, rate=None))
            await self.read(SMALL, text.reveal())
            await store.revoke(text.key_id)
        started = time.perf_counter()
        while (await self.get(SMALL, text.reveal())).status == 200:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_SECONDS)
        return time.perf_counter() - started


@asynccontextmanager
async def serving(place: Place, pool: Pool) -> AsyncIterator[Served]:
    """Run the service of a place."""
    async with (
        service(place.connection.url[0], place.connection.prefix, settings=_QUIET) as program,
        connect(place.connection, connections=1, timeout=60) as client,
    ):
        await program.ready()
        [connection] = await pool.take(program.url, 1)
        yield Served(place, program, connection, client)


async def prepared(url: str, folder: Path, amount: Amount) -> Place:
    """Load an installation, unless it is there, and print what that took; return it with new keys."""
    connection = ConnectionSettings(url=(url,), prefix=f"wide-{amount.companies}-")
    place = Place(connection, amount, {})
    async with connect(connection, connections=2, timeout=600) as client:
        if not await client.indices.exists_alias(name=connection.alias(SOLD_LISTING)):
            await asyncio.to_thread(_load, place, folder)
            await write_keys(client, connection, amount)
        store = KeyStore(client, connection.keys_index, connection.usage_index)
        grants = {
            "all": KeyGrant("all", all_companies=True, rate=None),
            "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
        }
        place.keys.update({name: (await store.create(grant)).reveal() for name, grant in grants.items()})
    return place


def _load(place: Place, folder: Path) -> None:
    write_data(folder, place.amount)
    for resource in _RESOURCES:
        used = place.run("index", "reindex", str(folder / "source"), resource, folder=folder)
        print(
            f"{place.amount.companies:>7,} companies: {resource} loaded in {used.seconds:,.0f} s, "
            f"{used.processor:,.1f} s of processor time, {used.memory / 2**20:,.0f} MB",
            flush=True,
        )
    shutil.rmtree(folder)
