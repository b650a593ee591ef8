"""What a display licence shows, and what it costs: `python -m bench.display`.

Compares every form with the source: `--listings` generated listings with mixed switches, of which some are changed
while a copy follows. Then asks for pages of a sample with a plain key and with one that has the licence, in turn.
Prints the number of records that are shown and must not be, of those that are missing, and the ratio of the costs.
"""

import argparse
import asyncio
import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import aiohttp
import orjson
from elasticsearch import AsyncElasticsearch

from bench import programs
from bench.display_judge import Judge, Reader
from bench.paired import processor_seconds
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex, update
from mappings import COMPANY, LISTING, SOLD_LISTING
from mappings.visibility import ADDRESS_SWITCH, LISTING_SWITCH, DisplayLicence
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

Record = dict[str, Any]

_COMPANY, _SHOWS = "own", 50  # one record in so many is shown alone
# Large members make the load long, and the comparison no different.
_LEFT_OUT = ("ListingImages", "PropertyFeatures", "OpenHouse")
_SOLD = {field.name for field in SOLD_LISTING.stored}
_GRANTS = {"plain": KeyGrant("plain", all_companies=True, rate=None)}
_GRANTS["idx"] = KeyGrant("idx", all_companies=True, rate=None, display=DisplayLicence.IDX)
_FIRST, _LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
_SETTINGS = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0", "PYTHONPATH": str(Path.cwd())}


async def _copy(reader: Reader) -> tuple[dict[str, Record], str]:
    head, *lines, _ = await reader.snapshot()
    return {line["id"]: line for line in lines}, head["token"]


async def _follow(reader: Reader, copy: dict[str, Record], token: str) -> None:
    is_done = False
    while not is_done:
        page = await reader.json(f"/v1/changes?since={token}&page_size=1000")
        for change in page["changes"]:
            if "reason" in change:
                copy.pop(change["id"], None)
            else:
                copy[change["id"]] = change
        token, is_done = page["next"], page["at_end"]


def _digest(copy: dict[str, Record]) -> tuple[int, str]:
    hashes = (
        hashlib.sha256(bytes.fromhex(line["content"]) + name.encode()).digest()[:8] for name, line in copy.items()
    )
    return len(copy), f"{sum(map(int.from_bytes, hashes)) % 2**64:016x}"


async def _judge_copy(reader: Reader, judge: Judge, form: str, copy: dict[str, Record]) -> None:
    judge.compare(form, [line["record"] for line in copy.values()])
    digest = await reader.json("/v1/digest/listings")
    if (digest["count"], digest["digest"]) != _digest(copy):
        judge.wrong[f"{form}: digest differs"] += 1


async def _judge_pages(reader: Reader, judge: Judge) -> None:
    judge.compare("pages", [record async for record in reader.walk("application/json", "Listings")])
    features = [feature async for feature in reader.walk("application/geo+json", "features")]
    judge.compare("features", [feature["properties"] for feature in features])
    judge.wrong["features: on the map"] += sum(
        (feature["geometry"] is None) is not (feature["properties"]["Latitude"] is None) for feature in features
    )
    rows = {row["ListingKey"]: row async for row in reader.reso()}
    judge.wrong["Property: not what may be shown"] += len(rows.keys() ^ judge.shown)
    places = {name for name, row in rows.items() if any(row.get(each) for each in ("City", "PostalCode", "Latitude"))}
    judge.wrong["Property: address"] += sum(
        (judge.source[name][ADDRESS_SWITCH] is False) is (name in places) for name in rows
    )
    for name in sorted(judge.source)[::_SHOWS]:
        async with reader.http.get(f"{reader.url}/v1/listings/{name}") as response:
            judge.wrong["shows"] += (response.status == 200) is not (name in judge.shown)
    judge.wrong += Counter()


def _write(folder: Path, records: Iterable[Record], at: str) -> None:
    folder.mkdir()
    company = {"platform_company_id": _COMPANY, "name": _COMPANY}
    lines = [{"updated_at": at, "platform_company_id": _COMPANY, "record": record} for record in records]
    # Without sold listings there would be no Property; this one is withheld.
    sold = lines[0]["record"] | {"PlatformListingId": "S0", LISTING_SWITCH: False}  # type: ignore[operator]
    of_resource: dict[str, list[Record]] = {
        "companies": [{"updated_at": at, "record": company}],
        "listings": lines,
        "sold_listings": [lines[0] | {"record": {name: sold[name] for name in sold if name in _SOLD}}],
    }
    for name, envelopes in of_resource.items():
        (folder / f"{name}.ndjson").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in envelopes))


async def _load(context: IndexerContext, folder: Path, records: Iterable[Record], at: str) -> None:
    _write(folder, records, at)
    with open_source(str(folder)) as source:
        if at == _FIRST:
            summary = await reindex(context, source, resources=[COMPANY, LISTING, SOLD_LISTING], force=True)
        else:
            summary = await update(context, source)
    if summary.exit_code:
        raise SystemExit(f"The load failed: {[report.refusal for report in summary.resources]}")


async def _prove(client: AsyncElasticsearch, url: str, folder: Path, given: argparse.Namespace) -> None:
    judge, chance = Judge(), Random(given.seed)  # noqa: S311 - the same in every run
    write_source(folder / "template", listings=10)
    with (folder / "template" / "listings.ndjson").open("rb") as file:
        template = orjson.loads(file.readline())["record"]
    judge.generate({name: value for name, value in template.items() if name not in _LEFT_OUT}, given.listings, chance)
    context = _context(client, url, "proof-", folder)
    await _load(context, folder / "first", judge.source.values(), _FIRST)
    headers = {"x-api-key": await _key(context, "idx")}
    async with _service(context) as program, aiohttp.ClientSession(headers=headers) as http:
        reader = Reader(http, program.url, _COMPANY)
        copy, token = await _copy(reader)
        await _judge_copy(reader, judge, "snapshot", copy)
        await _judge_pages(reader, judge)
        await _load(context, folder / "later", judge.change(chance), _LATER)
        await asyncio.sleep(3)
        await _follow(reader, copy, token)
        await _judge_copy(reader, judge, "followed copy", copy)
        fresh, _ = await _copy(reader)
        await _judge_copy(reader, judge, "fresh copy", fresh)
    print(f"{given.listings:,} listings, {len(judge.shown):,} may be shown; {judge.compared:,} records compared")
    print(f"differences: {dict(judge.wrong) or 0}", flush=True)


def _context(client: AsyncElasticsearch, url: str, prefix: str, folder: Path) -> IndexerContext:
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
    return IndexerContext(client, ConnectionSettings(url=(url,), prefix=prefix), settings)


async def _key(context: IndexerContext, name: str) -> str:
    return (await KeyStore(context.client, context.connection.keys_index).create(_GRANTS[name])).reveal()


@asynccontextmanager
async def _service(context: IndexerContext) -> AsyncIterator[programs.Program]:
    connection = context.connection
    async with programs.service(connection.url[0], connection.prefix, settings=_SETTINGS) as program:
        await program.ready()
        yield program


async def _block(
    program: programs.Program, http: aiohttp.ClientSession, path: str, count: int, headers: dict[str, str]
) -> tuple[float, float]:
    """Return the milliseconds per request: of the service's processor, and by the clock."""
    used, began = processor_seconds(program.pid), time.perf_counter()
    for _ in range(count):
        async with http.get(f"{program.url}{path}", headers=headers) as response:
            response.raise_for_status()
            await response.read()
    taken = processor_seconds(program.pid) - used, time.perf_counter() - began
    return taken[0] * 1e3 / count, taken[1] * 1e3 / count


async def _compare_costs(client: AsyncElasticsearch, url: str, folder: Path, given: argparse.Namespace) -> None:
    context = _context(client, url, "cost-", folder)
    write_source(folder / "sample", listings=given.sample)
    with open_source(str(folder / "sample")) as source:
        await reindex(context, source, force=True)
    found = await client.search(index=context.connection.alias(LISTING), size=1, source_includes=["company"])
    company = found["hits"]["hits"][0]["_source"]["company"]
    headers = [{"x-api-key": await _key(context, name)} for name in _GRANTS]
    page = f"/v1/listings?platform_company_id={company}&updated_since=1&page_size=200"
    async with _service(context) as program, aiohttp.ClientSession() as http:
        for status in ("on-market", "all"):
            path = f"{page}&market_status={status}"
            rounds = [
                [await _block(program, http, path, given.requests, each) for each in headers]
                for _ in range(given.rounds + 1)
            ]
            # The first round warms up.
            _print_costs(status, rounds[1:])


def _print_costs(status: str, rounds: list[list[tuple[float, float]]]) -> None:
    for at, measure in enumerate(("processor time of the service", "time of a request")):
        plain, idx = (median(each[key][at] for each in rounds) for key in (0, 1))
        ratio = median(each[1][at] / each[0][at] for each in rounds)
        print(f"page of 200 {status}, {measure}: plain {plain:.2f} ms, idx {idx:.2f} ms, ratio {ratio:.3f}", flush=True)


async def _run(url: str, folder: Path, given: argparse.Namespace) -> None:
    async with connect(ConnectionSettings(url=(url,)), connections=8, timeout=600) as client:
        if given.listings:
            await _prove(client, url, folder / "proof", given)
        if given.rounds:
            await _compare_costs(client, url, folder / "cost", given)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000, help="to compare with the source; 0: none")
    parser.add_argument("--sample", type=int, default=3_000, help="listings of the sample whose pages are measured")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of measurement; 0: none")
    parser.add_argument("--requests", type=int, default=40, help="requests with each key in a round")
    parser.add_argument("--seed", type=int, default=26)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        for part in ("proof", "cost"):
            (Path(name) / part).mkdir()
        asyncio.run(_run(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
