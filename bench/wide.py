"""How cost grows with companies, parents and keys: `python -m bench.wide`, on a node of its own.

Two installations have as many offices, agents and sold listings; one has 20,000 companies and as many keys, the other
100 companies and 10 keys. In both, 30 % of the companies are below one parent. Prints what loading took; then each
figure of both, measured in turn, and the ratio. With `--data`, what is loaded remains there, and is measured again.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import orjson

from bench.accounting import peak_bytes, processor_seconds, resident_bytes
from bench.client import Pool
from bench.wide_data import PARENT, Amount
from bench.wide_places import SMALL, Place, Served, prepared, serving
from embedded import EmbeddedCluster, NodeOptions
from service.settings import ServiceSettings

_STARTS, _REVOCATIONS, _IDLE_SECONDS = 5, 9, 30
_LONG_MS = 60_000.0  # no request is measured for longer
_OF_PARENT = f"parent_company_id={PARENT}"
_WALK = f"sold_listings?{_OF_PARENT}&updated_since=1&page_size=1000"
_COMMANDS = (("keys", "list"), ("index", "status"))
_AMOUNTS = {
    "companies": 20_000,
    "parents": 200,
    "keys": 20_000,
    "offices": 100_000,
    "agents": 500_000,
    "sold": 200_000,
}


def _requests(amount: Amount) -> dict[str, str]:
    """Return the requests to compare, by what they are; those of the parent are sent with its key."""
    middle, last = f"L{amount.sold // 2:09}", min(5_000, amount.agents // 20)
    page = f"updated_since=1&page_size=200&last_platform_listing_id={middle}"
    agents = "updated_since=1&page_size=20&page_number"
    shown = amount.sold // 2 // amount.companies * amount.companies + amount.parents  # of the parent's first child
    of_parent, company = f"sold_listings/L{shown:09}", amount.company(shown)
    return {
        "page of 200 of one company": f"sold_listings?platform_company_id={amount.company(1)}&{page}",
        "page of 200 of the parent": f"sold_listings?{_OF_PARENT}&{page}",
        f"agents, page {last:,}": f"agents?{agents}={last}",
        f"agents of the parent, page {last // 4:,}": f"agents?{_OF_PARENT}&{agents}={last // 4}",
        "changes of the parent, 200": f"changes?{_OF_PARENT}&resources=sold_listings&page_size=200",
        "digest of the parent's agents": f"digest/agents?{_OF_PARENT}",
        "RESO offices of the parent's key": "reso/Office?$top=200",
        "show with the parent's key": of_parent,
        "show of one company, same key": f"{of_parent}?platform_company_id={company}",
        "all companies": "companies",
        "companies, last page of 100": f"companies?page_number={amount.companies // 100}",
    }


def _show(name: str, figures: Sequence[float], unit: str) -> None:
    """Print a figure of the narrow and of the wide installation, and the ratio."""
    narrow, wide = figures
    ratio = f"ratio {wide / narrow:.2f}" if narrow else ""
    print(f"{name:<42} {narrow:10,.2f} {wide:10,.2f} {unit:<4} {ratio}", flush=True)


async def _compare(places: Sequence[Place], given: argparse.Namespace) -> None:
    starts = [[await place.start_seconds() for place in places] for _ in range(_STARTS)]
    _show("start until ready", [median(column) for column in zip(*starts, strict=True)], "s")
    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.callback(pool.close)
        served = [await stack.enter_async_context(serving(place, pool)) for place in places]
        await asyncio.sleep(ServiceSettings().stale_seconds)
        _show("memory of a worker after the start", [resident_bytes(each.program.pid) / 2**20 for each in served], "MB")
        await _compare_idle(served)
        for name in _requests(places[0].amount):
            await _compare_request(served, name, given.rounds)
        await _compare_walks(served)
        delays = [[await each.revocation_seconds() for each in served] for _ in range(_REVOCATIONS)]
        for name, chosen in (("median", median), ("longest", max)):
            figures = [chosen(column) for column in zip(*delays, strict=True)]
            _show(f"revocation, {name} of {_REVOCATIONS}", figures, "s")
        _show("memory of a worker at most", [peak_bytes(each.program.pid) / 2**20 for each in served], "MB")
    _compare_commands(places)


async def _compare_idle(served: Sequence[Served]) -> None:
    """Compare the processor time of services that get a small request a second."""
    roots = {str(at): each.program.pid for at, each in enumerate(served)}
    before = processor_seconds(roots)
    for _ in range(_IDLE_SECONDS):
        for each in served:
            await each.read(SMALL, "all")
        await asyncio.sleep(1)
    used = [(seconds - before[name]) * 1e3 / _IDLE_SECONDS for name, seconds in processor_seconds(roots).items()]
    _show("processor time with a request a second", used, "ms/s")


async def _compare_request(served: Sequence[Served], name: str, rounds: int) -> None:
    """Compare the times of a request, and print what the services' processors took for it, too.

    Elasticsearch has forgotten the answers before each: it would return a digest or a count from its memory otherwise.
    """
    targets, key = [_requests(each.place.amount)[name] for each in served], "parent" if "key" in name else "all"
    roots = {str(at): each.program.pid for at, each in enumerate(served)}
    before, rows = processor_seconds(roots), list[list[float]]()
    while len(rows) < rounds and sum(map(sum, rows)) < _LONG_MS:
        for each in served:
            await each.forget_answers()
        rows.append([(await each.read(target, key))[0] for each, target in zip(served, targets, strict=True)])
    used = [(seconds - before[root]) * 1e3 / len(rows) for root, seconds in processor_seconds(roots).items()]
    _show(name, [median(column) for column in zip(*rows, strict=True)], "ms")
    _show("  processor time of the service", used, "ms")


async def _compare_walks(served: Sequence[Served]) -> None:
    """Walk all sold listings below the parent, in turn a page of each."""
    seconds, records, cursors = [0.0] * len(served), [0] * len(served), [""] * len(served)
    unfinished = {*range(len(served))}
    while unfinished:
        for at in [*unfinished]:
            after = f"&last_platform_listing_id={cursors[at]}" if cursors[at] else ""
            taken, answer = await served[at].read(_WALK + after, "parent")
            page = orjson.loads(answer.body)
            seconds[at], records[at] = seconds[at] + taken / 1e3, records[at] + len(page["Listings"])
            cursors[at] = page["Listings"][-1]["PlatformListingId"]
            unfinished -= {at} if page["FinalPage"] else set()
    if len({*records}) > 1:
        raise SystemExit(f"The walks returned {records} records.")
    _show(f"walk of the parent, {records[0]:,} records", [taken * 1e6 / records[0] for taken in seconds], "µs")


def _compare_commands(places: Sequence[Place]) -> None:
    for command in _COMMANDS:
        rows = [[place.run(*command) for place in places] for _ in range(_STARTS)]
        columns = [*zip(*rows, strict=True)]
        _show(f"brokerage {' '.join(command)}", [median(used.seconds for used in column) for column in columns], "s")
        _show("  its memory", [max(used.memory for used in column) / 2**20 for column in columns], "MB")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in _AMOUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--data", type=Path, help="folder of the node's data, which remains")
    given = parser.parse_args()
    records = {"offices": given.offices, "agents": given.agents, "sold": given.sold}
    amounts = (Amount(100, 2, 10, **records), Amount(given.companies, given.parents, given.keys, **records))
    options = NodeOptions(data=given.data, ephemeral=given.data is None)
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(options) as cluster:
        places = [asyncio.run(prepared(cluster.url, Path(name) / str(each.companies), each)) for each in amounts]
        asyncio.run(_compare(places, given))


if __name__ == "__main__":
    main()
