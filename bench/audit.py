"""What the audit knows, and what it costs: `python -m bench.audit [--reads N] [--rounds N]`.

Several keys read records at random, in all forms, while records are deleted. For every record and key the answer of
`brokerage audit who` is compared with the responses. Then one service with an audit and one without are asked
alternately; both also use the time in which rows are written. Runs on a node of its own.
"""

import argparse
import asyncio
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import orjson
from elasticsearch import AsyncElasticsearch

from bench import programs
from bench.accounting import tree
from bench.audit_reads import Holding, Reader, Truth
from bench.paired import processor_seconds
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex, update
from mappings import LISTING
from sample import write_source
from service.audit.reads import LIVE
from service.audit.store import AuditStore, CurrentRecord, Holder, find_holders
from service.keys.store import KeyGrant, KeyStore

_PREFIX = "audit-bench-"
_SETTINGS = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}
_KEYS = 5
_DELETIONS = 4
_AT_ONCE = 4
# Rows are written every five seconds.
_WRITTEN_SECONDS = 6.0


class Market:
    """Sample data in indices of its own, keys to read them, and deletions."""

    def __init__(self, client: AsyncElasticsearch, connection: ConnectionSettings, folder: Path) -> None:
        """Use the indices of the connection's prefix."""
        self.client, self.connection, self._folder = client, connection, folder
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
        self._indexer = IndexerContext(client, connection, settings)

    async def load(self, listings: int) -> list[str]:
        """Load a sample and create the audit; return the companies."""
        write_source(self._folder / "all", listings=listings)
        with open_source(str(self._folder / "all")) as source:
            await reindex(self._indexer, source, force=True)
        await AuditStore(self.client, self.connection.audit_index).create()
        lines = (self._folder / "all" / "listings.ndjson").read_bytes().splitlines()
        companies = [orjson.loads(line)["platform_company_id"] for line in lines]
        return sorted(set(companies), key=companies.count, reverse=True)

    async def key(self, **granted: Any) -> str:
        """Return a new key."""
        store = KeyStore(self.client, self.connection.keys_index)
        return (await store.create(KeyGrant("bench", rate=None, **granted))).reveal()

    async def delete(self, number: int, share: float) -> None:
        """Delete a share of the listings."""
        lines = (self._folder / "all" / "listings.ndjson").read_bytes().splitlines()
        chosen = [orjson.loads(line) for line in random.Random(number).sample(lines, int(len(lines) * share))]  # noqa: S311
        for line in chosen:
            line |= {"deleted": True, "updated_at": f"2199-01-0{number + 1}T00:00:00Z"}
        folder = self._folder / f"deleted-{number}"
        folder.mkdir()
        (folder / "listings.ndjson").write_bytes(b"\n".join(map(orjson.dumps, chosen)) + b"\n")
        with open_source(str(folder)) as source:
            await update(self._indexer, source)


async def _read(market: Market, readers: list[Reader], reads: int) -> None:
    truth = readers[0].truth
    for number in range(_DELETIONS):
        for reader in readers[:-1]:  # the last one never follows the changes
            await reader.follow()
        while truth.reads < reads * (number + 1) / _DELETIONS:
            await asyncio.gather(*(reader.read() for reader in readers))
        await market.delete(number, 0.05)
    await readers[0].follow()


async def _wrong(market: Market, truth: Truth, keys: Sequence[str]) -> tuple[int, int]:
    """Return how many answers were compared, and how many were wrong."""
    store = AuditStore(market.client, market.connection.audit_index)
    records = sorted({(each.resource, each.identifier) for each in (*truth.live, *truth.removed)})
    compared = wrong = 0
    for alias, identifier in records:
        holders = {each.key_id: each for each in await find_holders(store.sent(alias, [identifier]))}
        for key in keys:
            compared += 1
            holding = Holding(key[3:13], alias, identifier)
            wrong += not _is_right(holders.get(holding.key_id), holding, truth)
    return compared, wrong


def _is_right(holder: Holder | None, holding: Holding, truth: Truth) -> bool:
    sent, removed = truth.live.get(holding, []), truth.removed.get(holding)
    if holder is None or not (sent or removed):
        return holder is None and not (sent or removed)
    last = max(sent, key=lambda at: at.ended, default=None)
    # Requests of one key do not overlap: the last one that was answered was recorded last.
    is_time_right = (holder.sent is None) == (last is None) and (
        last is None or holder.sent is None or last.began <= holder.sent.at <= last.ended
    )
    removal = holder.removal_read(CurrentRecord(holding.resource, holding.identifier))
    expected = removed[1] if removed and (last is None or removed[0].ended >= last.ended) else LIVE
    return is_time_right and holder.times == len(sent) and (removal[1] if removal else LIVE) in {expected, "absent"}


async def _exactness(market: Market, url: str, listings: int, reads: int) -> None:
    companies = await market.load(listings)
    grants: list[dict[str, Any]] = [{"all_companies": True}] * 2 + [{"companies": (each,)} for each in companies[:3]]
    keys = [await market.key(**grant) for grant in grants[:_KEYS]]
    truth = Truth()
    audited = programs.service(url, _PREFIX, settings=_SETTINGS | {"BROKERAGE_AUDIT_DAYS": "1"})
    async with audited as program, aiohttp.ClientSession() as http:
        await program.ready()
        readers = [
            Reader(http, program.url, key, list(grant.get("companies", companies)), truth, random.Random(at))  # noqa: S311
            for at, (key, grant) in enumerate(zip(keys, grants, strict=True))
        ]
        await _read(market, readers, reads)
    compared, wrong = await _wrong(market, truth, keys)
    stored = await market.client.indices.stats(index=market.connection.audit_index, metric=["store", "docs"])
    size, rows = (stored["_all"]["primaries"][each] for each in ("store", "docs"))
    print(f"{truth.reads:,} records read; {compared:,} answers compared, {wrong} wrong")
    print(f"{rows['count']:,} rows, {size['size_in_bytes'] / truth.reads:.1f} bytes per record read")


async def _block(
    program: programs.Program, http: aiohttp.ClientSession, paths: Sequence[str], node: int
) -> list[float]:
    """Return requests a second, and the milliseconds of processor time per request, rows written included."""

    async def ask(share: Sequence[str]) -> None:
        for path in share:
            async with http.get(f"{program.url}{path}") as answer:
                answer.raise_for_status()
                await answer.read()

    loop = asyncio.get_running_loop()
    used, started = processor_seconds(program.pid) + processor_seconds(node), loop.time()
    await asyncio.gather(*(ask(paths[at::_AT_ONCE]) for at in range(_AT_ONCE)))
    seconds = loop.time() - started
    await asyncio.sleep(_WRITTEN_SECONDS)
    return [len(paths) / seconds, (processor_seconds(program.pid) + processor_seconds(node) - used) * 1e3 / len(paths)]


def _node_pid() -> int:
    commands = {each.pid: Path(f"/proc/{each.pid}/cmdline").read_bytes() for each in tree(os.getpid())}
    return next(pid for pid, command in commands.items() if b"node_main" in command)


async def _cost(market: Market, url: str, rounds: int, requests: int) -> None:
    found = await market.client.search(
        index=market.connection.alias(LISTING),
        size=1000,
        query={"term": {"deleted": False}},
        source_includes=["id", "company"],
    )
    records = [hit["_source"] for hit in found["hits"]["hits"]]
    company = max((each["company"] for each in records), key=[each["company"] for each in records].count)
    page = f"/v1/listings?platform_company_id={company}&updated_since=1&market_status=all&page_size=200"
    kinds = {
        "page of 200": [page] * requests,
        "show": [f"/v1/listings/{each['id']}" for each in records] * (requests // 50),
    }
    key = await market.key(all_companies=True)
    node = _node_pid()
    without = programs.service(url, _PREFIX, settings=_SETTINGS)
    with_audit = programs.service(url, _PREFIX, settings=_SETTINGS | {"BROKERAGE_AUDIT_DAYS": "1"})
    async with without as plain, with_audit as audited, aiohttp.ClientSession(headers={"x-api-key": key}) as http:
        await asyncio.gather(plain.ready(), audited.ready())
        for kind, paths in kinds.items():
            for program in (plain, audited):
                await _block(program, http, paths, node)
            taken = [
                (await _block(plain, http, paths, node), await _block(audited, http, paths, node))
                for _ in range(rounds)
            ]
            rate, used = (median(new[at] / old[at] for old, new in taken) for at in range(2))
            old, new = (median(each[arm][1] for each in taken) for arm in range(2))
            print(f"{kind:12} per second {rate:.3f}; processor {used:.3f} ({old:.3f} ms, with an audit {new:.3f} ms)")


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> None:
    connection = ConnectionSettings(url=(url,), prefix=_PREFIX)
    async with connect(connection, connections=4, timeout=60) as client:
        market = Market(client, connection, folder)
        await _exactness(market, url, given.listings, given.reads)
        await _cost(market, url, given.rounds, given.requests)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=100_000, help="records read")
    parser.add_argument("--listings", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
