"""What each layer of a running service costs, by its own metrics:
`python -m bench.layers --service URL --metrics URL --key KEY [--target T] [--requests N]`.

Asks for the same target again and again, and prints the mean of each layer in milliseconds, and its share of them all.
They are times, not processor time: what a layer waits for is in them. `auth` is the key and its limits: with a key that
has a rate, and with and without `BROKERAGE_REDIS_URL` for the service, it tells what those cost (decision 11).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator

FEED = "/v1/listings?platform_company_id=summit-crest&market_status=all&updated_since=1"
_WARM_UP = 20
_SUM, _COUNT = "brokerage_layer_seconds_sum", "brokerage_layer_seconds_count"


def _sums(text: str) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the value of each sum and count of the metrics, by its name and layer, over all paths."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in {_SUM, _COUNT}:
                yield (sample.name, sample.labels["layer"]), sample.value


async def _read(session: aiohttp.ClientSession, url: str) -> dict[tuple[str, str], float]:
    async with session.get(f"{url}/metrics") as response:
        found: dict[tuple[str, str], float] = {}
        for key, value in _sums(await response.text()):
            found[key] = found.get(key, 0.0) + value
        return found


async def _ask(session: aiohttp.ClientSession, given: argparse.Namespace, count: int) -> None:
    headers = {"x-api-key": given.key, "Accept-Encoding": given.encoding}
    for _ in range(count):
        async with session.get(given.service + given.target, headers=headers) as response:
            response.raise_for_status()
            await response.read()


async def _measure(given: argparse.Namespace) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        await _ask(session, given, _WARM_UP)
        before = await _read(session, given.metrics)
        await _ask(session, given, given.requests)
        after = await _read(session, given.metrics)
    seconds = {layer: after[_SUM, layer] - before[_SUM, layer] for name, layer in after if name == _SUM}
    for layer, spent in seconds.items():
        count = after[_COUNT, layer] - before[_COUNT, layer]
        print(f"{layer:14} {spent / count * 1000:8.3f} ms {spent / sum(seconds.values()):7.2%}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service", required=True, help="where the API is, http://host:port")
    parser.add_argument("--metrics", required=True, help="where its metrics are, http://host:port")
    parser.add_argument("--key", required=True)
    parser.add_argument("--target", default=FEED)
    parser.add_argument("--encoding", default="identity")
    parser.add_argument("--requests", type=int, default=300)
    uvloop.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
