"""What it costs to keep a copy: `python -m bench.copying --service URL --key KEY --company COMPANY --pid PID`.

Prints, measured in interleaved rounds: rows per second of a snapshot and of a walk with the largest page; the growth of
the service's memory; requests and bytes to verify that a copy is equal, to find ten differing records, and to walk all
identifiers; a page of changes at the head and from the beginning.
"""

import argparse
import hashlib
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import aiohttp
import orjson
import uvloop

from bench.snapshots import paced
from bench.walks import Company

_MOST_PREFIXES = 64
_PAGES = 20
_DIFFERING = 10
_IDENTIFIER = re.compile(rb'"id":"([^"]+)","sequence":\d+,"time":"[^"]+","content":"([0-9a-f]{16})"')

Sums = dict[str, tuple[int, int]]


@dataclass
class Consumer:
    """Reads the listings of one company from a service, and counts requests and bytes."""

    http: aiohttp.ClientSession
    given: argparse.Namespace
    requests: int = 0
    received: int = 0
    contents: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **parameters: Any) -> bytes:
        """Return the body of an answer."""
        query = {"platform_company_id": self.given.company, **parameters}
        async with self.http.get(f"/v1/{path}", params=query) as answer:
            answer.raise_for_status()
            body = await answer.read()
            self.requests += 1
            self.received += int(answer.headers.get("Content-Length", len(body)))
            return body

    async def load(self) -> None:
        """Keep the content hashes of a snapshot."""
        body = await self.get("snapshot/listings")
        self.contents = {name.decode(): content.decode() for name, content in _IDENTIFIER.findall(body)}

    def sums(self, digits: int) -> Sums:
        """Return count and sum of each bucket of the copy."""
        found: Sums = defaultdict(lambda: (0, 0))
        for name, content in self.contents.items():
            prefix = hashlib.sha256(name.encode()).hexdigest()[:digits]
            number = int.from_bytes(hashlib.sha256(bytes.fromhex(content) + name.encode()).digest()[:8])
            count, total = found[prefix]
            found[prefix] = count + 1, (total + number) % 2**64
        return found

    async def differing(self) -> list[str]:
        """Return the records that differ, by digests alone."""
        suspects = [""]
        for digits in (2, 4):
            theirs = await self._digests(suspects)
            ours = {each: sums for each, sums in self.sums(digits).items() if each[: digits - 2] in suspects}
            suspects = sorted(each for each in ours.keys() | theirs.keys() if ours.get(each) != theirs.get(each))
            if not suspects:
                return []
        body = await self.get("digest/listings", prefixes=",".join(suspects))
        listed = [record for bucket in orjson.loads(body)["buckets"] for record in bucket["records"]]
        return [record["id"] for record in listed if self.contents.get(record["id"]) != record["content"]]

    async def _digests(self, prefixes: list[str]) -> Sums:
        found: Sums = {}
        for at in range(0, len(prefixes), _MOST_PREFIXES):
            some = ",".join(prefixes[at : at + _MOST_PREFIXES])
            body = await self.get("digest/listings", **({"prefixes": some} if some else {}))
            buckets = orjson.loads(body)["buckets"]
            found |= {each["prefix"]: (each["count"], int(each["digest"], 16)) for each in buckets}
        return found

    async def identifiers(self) -> None:
        """Walk identifiers and clocks alone."""
        after: dict[str, str] = {}
        while True:
            asked = {"page_size": 1000, "updated_since": 0, "market_status": "all", "timestamps_only": "true"}
            body = await self.get("listings", **asked, **after)
            page = orjson.loads(body)
            if page["FinalPage"]:
                return
            after = {"last_platform_listing_id": page["Listings"][-1]["PlatformListingId"]}


async def _proven(consumer: Consumer) -> None:
    await consumer.load()
    for spoilt in (0, _DIFFERING):
        for name in random.sample(sorted(consumer.contents), spoilt):
            consumer.contents[name] = "0" * 16
        consumer.requests = consumer.received = 0
        found = await consumer.differing()
        print(f"{spoilt:3} differ, {len(found)} found: {consumer.requests} requests, {consumer.received:,} bytes")
    consumer.requests = consumer.received = 0
    await consumer.identifiers()
    print(f"all identifiers: {consumer.requests} requests, {consumer.received:,} bytes")


async def _changed(consumer: Consumer) -> None:
    tokens = [orjson.loads(await consumer.get("changes", resources="listings", page_size=1))["next"]]
    changes, at_end = 1, False
    while not at_end:
        page = orjson.loads(await consumer.get("changes", since=tokens[-1], page_size=1000))
        changes, at_end = changes + len(page["changes"]), page["at_end"]
        tokens.append(page["next"])
    far, near = tokens[0], tokens[-min(3, len(tokens))]
    seconds: dict[str, list[float]] = {near: [], far: []}
    for _ in range(_PAGES):
        for since in (near, far):
            began = time.perf_counter()
            await consumer.get("changes", since=since)
            seconds[since].append(time.perf_counter() - began)
    ratio = median(seconds[far]) / median(seconds[near])
    print(f"a page of changes {changes:,} behind takes {ratio:.2f} times as long as one at the head")


async def _measure(given: argparse.Namespace) -> None:
    headers = {"x-api-key": given.key, "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(given.service, headers=headers, timeout=aiohttp.ClientTimeout(None)) as http:
        consumer = Consumer(http, given)
        count = orjson.loads(await consumer.get("digest/listings"))["count"]
        await paced(given, Company(given.company, count, ""))
        await _proven(consumer)
        await _changed(consumer)


def main() -> None:
    """Measure a service that runs."""
    parser = argparse.ArgumentParser(description="What it costs to keep a copy of a company's listings.")
    parser.add_argument("--service", required=True, help="where the API is, http://host:port")
    parser.add_argument("--key", required=True)
    parser.add_argument("--company", required=True)
    parser.add_argument("--pid", type=int, required=True, help="the process of the service, for its memory")
    parser.add_argument("--encoding", default="identity")
    parser.add_argument("--rounds", type=int, default=3)
    uvloop.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
