"""Many subscriptions: how long a change takes to reach them, and what pages of other keys cost meanwhile.

`pytest --soak -s tests/deliver/test_many.py` prints both for 200 subscriptions. Pages are read in turns with and
without what delivers, while listings change in both.
"""

import asyncio
import signal
import statistics
import time
from collections.abc import Callable

from mappings import LISTING
from service.keys.store import KeyGrant, KeyStore
from tests.deliver.conftest import Pushed
from tests.deliver.receiver import Receiver, receiving
from tests.deliver.test_killed import processes
from tests.feed.feed_client import listing

_KEYS = 20


async def read_pages(pushed: Pushed, seconds: float) -> list[float]:
    """Return how long each page of another key took, read one after the other for a while."""
    took, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        await pushed.feed.json("listings", "b", platform_company_id="b")
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)
    return took


async def test_many_subscriptions(pushed: Pushed, amount: Callable[[int, int], int]) -> None:
    count, rounds = amount(10, 200), amount(2, 10)
    store = KeyStore(pushed.feed.bench.client, pushed.feed.bench.connection.keys_index)
    for number in range(_KEYS):
        grant = KeyGrant(f"k{number}", companies=("a",), rate=None)
        pushed.feed.keys[f"k{number}"] = (await store.create(grant)).reveal()
    times, delays = dict[int, float](), list[float]()
    async with receiving() as receiver:
        for begin in range(0, count, _KEYS):
            await asyncio.gather(
                *(
                    pushed.subscribe(receiver.url, f"k{number % _KEYS}", name=f"s{number}", resources=("listings",))
                    for number in range(begin, min(count, begin + _KEYS))
                )
            )
        async with processes(pushed, 1) as running:
            price = 100
            for _ in range(rounds + 1):  # the first one waits for the process to start
                price += 1
                await pushed.feed.bench.update({LISTING: [listing("L0", "a", price, price=price)]})
                times[price] = time.time()
                await receiver.until(lambda price=price: reached(receiver, price) == count, 300.0)  # type: ignore[misc]
            delays = arrival_delays(receiver, times)[count:]
            print(f"{count} subscriptions: median delay {statistics.median(delays):.2f} s, longest {max(delays):.2f} s")
            taken: dict[bool, list[float]] = {True: [], False: []}
            for turn in range(2 * rounds):
                is_delivering = turn % 2 == 0
                running.signal(signal.SIGCONT if is_delivering else signal.SIGSTOP)
                changing = asyncio.create_task(change(pushed, price + turn))
                taken[is_delivering] += await read_pages(pushed, 3.0)
                await changing
            running.signal(signal.SIGCONT)
            ratio = statistics.median(taken[True]) / statistics.median(taken[False])
            print(f"pages of another key: {ratio:.2f} times, medians of {len(taken[True])} and {len(taken[False])}")
    assert len(delays) == count * rounds


async def change(pushed: Pushed, price: int) -> None:
    for number in range(2):
        lines = [listing("L2", "a", 1000 + 2 * price + number, price=price)]
        await pushed.feed.bench.update({LISTING: lines})
        await asyncio.sleep(0.5)


def _prices(receiver: Receiver) -> list[tuple[str, int, float]]:
    """Return the subscription, the price and the time of arrival of each entry of the listing that is followed."""
    return [
        (delivery.content["subscription"], entry["record"]["ListPrice"], delivery.at)
        for delivery in receiver.accepted
        for entry in delivery.content["data"]["changes"]
        if entry["id"] == "L0"
    ]


def reached(receiver: Receiver, price: int) -> int:
    """Return how many subscriptions have been sent a price."""
    return len({name for name, sent, _ in _prices(receiver) if sent == price})


def arrival_delays(receiver: Receiver, times: dict[int, float]) -> list[float]:
    """Return how long after its publication each price first arrived at each subscription."""
    first: dict[tuple[int, str], float] = {}
    for name, price, at in _prices(receiver):
        first.setdefault((price, name), at - times[price])
    return [delay for _, delay in sorted(first.items())]
