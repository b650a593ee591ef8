"""What requests cost over several shards, compared with one: `python -m bench.shard_pages`, on a node of its own.

Two installations have the same listings, one of them in several shards; each request is sent to both in turn, by one
client. Prints the medians of the milliseconds and of the ratios. The largest company has 60 % of the listings.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from aiohttp.test_utils import TestClient, TestServer
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from mappings import COMPANY, LISTING, SOLD_LISTING
from mappings.shards import read_ranges
from mappings.stored_document import identifier_from_feed_key
from sample import write_source
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings

_LARGEST, _OTHERS = "m-largest", ("a-small", "k-small", "q-small", "z-small")
_PAGE = 200
_LEFT_OUT = ("Images", "OpenHouses")


@dataclass
class Served:
    """A service over one installation, and a key that may read all companies."""

    http: TestClient[Any, Any]
    key: str

    async def milliseconds(self, path: str, parameters: dict[str, str]) -> float:
        """Send a request and return how long it took."""
        started = time.perf_counter()
        async with self.http.get(f"/v1/{path}", params=parameters, headers={"x-api-key": self.key}) as answer:
            body = await answer.read()
        taken = (time.perf_counter() - started) * 1e3
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return taken


def _write_source(folder: Path, records: int) -> None:
    """Write listings without their largest members: six lines in ten are of the largest company."""
    write_source(folder / "sample", listings=10)
    with (folder / "sample" / "listings.ndjson").open("rb") as file:
        envelope = orjson.loads(file.readline())
    envelope["record"] = {name: value for name, value in envelope["record"].items() if name not in _LEFT_OUT}
    source = folder / "source"
    source.mkdir()
    names = (_LARGEST, *_OTHERS)
    companies = [
        {"platform_company_id": name, "name": name, "numeric_id": None, "public_partner_attrs": {"is_nrt": False}}
        for name in names
    ]
    lines = [orjson.dumps({"updated_at": "2026-01-01T00:00:00Z", "record": company}) for company in companies]
    (source / "companies.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    (source / "sold_listings.ndjson").write_bytes(b"")
    with (source / "listings.ndjson").open("wb") as file:
        for number in range(records):
            envelope["platform_company_id"] = _LARGEST if number % 10 < 6 else _OTHERS[number % 10 - 6]
            envelope["record"]["PlatformListingId"] = f"L{number:09}"
            file.write(orjson.dumps(envelope) + b"\n")


async def _load(client: AsyncElasticsearch, url: str, folder: Path, shards: int) -> ConnectionSettings:
    connection = ConnectionSettings(url=(url,), prefix=f"of-{shards}-")
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), shards=(f"listings={shards}",))
    with open_source(str(folder / "source")) as source:
        engine = IndexerContext(client, connection, settings)
        summary = await reindex(engine, source, resources=[COMPANY, LISTING, SOLD_LISTING])
    if summary.exit_code:
        raise SystemExit(f"The load failed: {[report.refusal for report in summary.resources]}")
    return connection


async def _requests(client: AsyncElasticsearch, alias: str, records: int) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the requests to compare, by what they are."""
    (body,) = (await client.indices.get_mapping(index=alias)).values()
    ranges = read_ranges(body["mappings"]["_meta"])
    own = [cut for cut in ranges.cuts if cut.startswith(f"{_LARGEST}:")]
    number = int(identifier_from_feed_key(own[len(own) // 2])[1:])
    of_company = {"platform_company_id": _LARGEST, "updated_since": "1", "page_size": str(_PAGE)}
    # Six in ten numbers are of the company: a cursor half a page before the cut.
    before_cut = f"L{number - _PAGE * 10 // 6 // 2:09}"
    return {
        "page, 97 % deep": ("listings", of_company | {"last_platform_listing_id": f"L{int(records * 0.97):09}"}),
        "page over a cut": ("listings", of_company | {"last_platform_listing_id": before_cut}),
        "show without company": (f"listings/L{records // 20 * 10:09}", {}),
        "changes of one company": ("changes", {"resources": "listings", "platform_company_id": _LARGEST}),
    }


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> None:
    _write_source(folder, given.records)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(ConnectionSettings(url=(url,)), connections=8, timeout=600))
        served: list[Served] = []
        for shards in (1, given.shards):
            connection = await _load(client, url, folder, shards)
            key = (
                await KeyStore(client, connection.keys_index).create(KeyGrant("all", all_companies=True, rate=None))
            ).reveal()
            app = create_app(ServiceSettings(), connection)
            served.append(Served(await stack.enter_async_context(TestClient(TestServer(app))), key))
        requests = await _requests(client, connection.alias(LISTING), given.records)
        await asyncio.sleep(ServiceSettings().stale_seconds)  # the services know their shards
        for name, (path, parameters) in requests.items():
            rounds = [[await each.milliseconds(path, parameters) for each in served] for _ in range(given.rounds)]
            one, several = (median(column) for column in zip(*rounds, strict=True))
            ratio = median(high / low for low, high in rounds)
            print(f"{name:<24} {one:7.2f} ms with 1 shard, {several:7.2f} ms with {given.shards}, ratio {ratio:.2f}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=101)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
