"""The feed against Elasticsearch asked with the same body: `python -m bench.feed [--listings N] [--rounds N]`.

One client. Each round asks every arm once, so that the machine's moods fall on all of them alike; the whole answer is
read, none is parsed. Printed are medians of milliseconds with the quarter points, and the ratio to the first arm.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import orjson
import uvloop

from bench.stage import Stage, staged
from mappings import LISTING
from service.query import Selection, since, walk_body
from service.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Ask = Callable[[aiohttp.ClientSession], Awaitable[int]]

COMPANY = "summit-crest"
PAGE = 200
# Identifiers are random UUIDs, so the first digits of a cursor tell how deep it is.
DEPTHS = {"first page": None, "half way": "8", "at 97 %": "f8"}
_WARM_UP = 3


@dataclass
class Arm:
    """One way to get a page, with the milliseconds that it took."""

    name: str
    ask: Ask
    milliseconds: list[float] = field(default_factory=list)

    async def measure(self, session: aiohttp.ClientSession) -> None:
        """Ask once."""
        started = time.perf_counter()
        await self.ask(session)
        self.milliseconds.append((time.perf_counter() - started) * 1000)

    def line(self, base: Arm) -> str:
        """Return median, quarter points, and the ratio of medians to another arm."""
        low, median, high = statistics.quantiles(self.milliseconds, n=4)
        return f"{self.name:42} {median:8.2f} ({low:.2f} to {high:.2f})  x {median / base.median:.3f}"

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.milliseconds)


def _raw(stage: Stage, after: str | None) -> Ask:
    """Ask Elasticsearch with the body that the service sends."""
    selection = Selection(LISTING, Scope(frozenset({COMPANY})), (since("clock", 1),))
    body = orjson.dumps(walk_body(selection, PAGE, after))
    url = f"{stage.connection.url[0]}/{stage.connection.alias(LISTING)}/_search?allow_partial_search_results=false"

    async def ask(session: aiohttp.ClientSession) -> int:
        async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
            response.raise_for_status()
            return len(await response.read())

    return ask


def _ours(stage: Stage, after: str | None, **parameters: str) -> Ask:
    """Ask the service."""
    query = {"platform_company_id": COMPANY, "market_status": "all", "updated_since": "1", "page_size": str(PAGE)}
    query |= parameters | ({"last_platform_listing_id": after} if after else {})

    async def ask(session: aiohttp.ClientSession) -> int:
        url = f"{stage.service_url}/listings"
        async with session.get(url, params=query, headers={"x-api-key": stage.key}) as response:
            response.raise_for_status()
            return len(await response.read())

    return ask


def _arms(stage: Stage) -> list[Arm]:
    raw = [Arm(f"Elasticsearch, same body, {name}", _raw(stage, after)) for name, after in DEPTHS.items()]
    ours = [Arm(f"service, {name}", _ours(stage, after)) for name, after in DEPTHS.items()]
    underscored = Arm("service, underscore_response", _ours(stage, None, underscore_response="true"))
    brief = Arm("service, timestamps_only", _ours(stage, None, timestamps_only="true"))
    return [*raw, *ours, underscored, brief]


async def _run(stage: Stage, rounds: int) -> list[Arm]:
    arms = _arms(stage)
    # The client offers gzip unless told otherwise, and Elasticsearch would take the offer.
    async with aiohttp.ClientSession(headers={"Accept-Encoding": "identity"}) as session:
        for number in range(-_WARM_UP, rounds):
            for arm in arms:
                await arm.measure(session)
            if number < 0:
                for arm in arms:
                    arm.milliseconds.clear()
    return arms


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    with staged(arguments.listings) as stage:
        # The service runs on uvloop: a slower loop here would charge the other arms for it.
        arms = uvloop.run(_run(stage, arguments.rounds))
    print(f"pages of {PAGE} from {arguments.listings:,} listings, {arguments.rounds} rounds, ms")
    for arm in arms:
        print(arm.line(arms[0]))


if __name__ == "__main__":
    main()
