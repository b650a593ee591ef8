"""Processes that are killed, receivers that fail, hang, answer late and are away: nothing is lost or out of order.

`pytest --soak -s tests/deliver/test_killed.py` kills 200 times, which takes some ten minutes.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from mappings import LISTING
from tests.deliver.conftest import Pushed
from tests.deliver.receiver import Behaviour, Delivery, Receiver, accept, receiving
from tests.feed.feed_client import deleted_listing, listing

_COMMAND = str(Path(sys.executable).with_name("brokerage"))
_LISTINGS = 40


def unreliable(choose: random.Random) -> dict[str, Behaviour]:
    """Return how receivers behave, by name."""

    async def fail(_: int) -> int:
        return choose.choice((200, 500, 503, 404))

    async def hang(_: int) -> int:
        if choose.random() < 0.2:
            await asyncio.sleep(10.0)  # longer than is waited for
        return 200

    async def answer_late(_: int) -> int:
        await asyncio.sleep(choose.uniform(0.0, 1.3))  # sometimes after the end of the wait
        return 200

    async def move(_: int) -> web.Response | int:
        return choose.choice((204, web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"})))

    return {"accepts": accept, "fails": fail, "hangs": hang, "late": answer_late, "moves": move}


class Processes:
    """Processes of `brokerage deliver` that are killed and started again."""

    def __init__(self, environment: dict[str, str], choose: random.Random) -> None:
        self._environment = environment
        self._choose = choose
        self._running: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            _COMMAND, "deliver", env=self._environment, stdout=asyncio.subprocess.DEVNULL
        )
        self._running.append(process)

    async def kill(self, number: int = signal.SIGKILL) -> None:
        process = self._running.pop(self._choose.randrange(len(self._running)))
        process.send_signal(number)
        await process.wait()

    async def kill_again(self, kills: int, arrived: Callable[[], int]) -> None:
        """Kill so many, each some time after a few deliveries have arrived since the one before."""
        for _ in range(kills):
            before = arrived()
            async with asyncio.timeout(240.0):
                while arrived() < before + 3:  # noqa: ASYNC110 - what is awaited is any state
                    await asyncio.sleep(0.05)
            await asyncio.sleep(self._choose.uniform(0.0, 2.0))
            await self.kill(self._choose.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            await self.start()

    def signal(self, number: int) -> None:
        """Send a signal to all of them."""
        for process in self._running:
            process.send_signal(number)

    async def stop(self) -> None:
        for process in self._running:
            process.kill()
            await process.wait()


@asynccontextmanager
async def processes(
    pushed: Pushed,
    count: int,
    choose: random.Random = random.Random(1),  # noqa: B008, S311
) -> AsyncIterator[Processes]:
    connection = pushed.feed.bench.connection
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    own = {
        "ELASTICSEARCH_URL": ",".join(connection.url),
        "BROKERAGE_INDEX_PREFIX": connection.prefix,
        "BROKERAGE_DELIVER_ALLOW_PRIVATE": "true",
        "BROKERAGE_DELIVER_SECONDS": "1",
    }
    running = Processes(clean | own, choose)
    try:
        for _ in range(count):
            await running.start()
        yield running
    finally:
        await running.stop()


async def change(pushed: Pushed, choose: random.Random, ends: asyncio.Event) -> None:
    """Change and delete listings until it ends, after a whole update.

    One that stopped before it published would leave records that whoever begins then does not see yet.
    """
    at = 10
    while not ends.is_set():
        at += 1
        names = choose.sample([f"K{number}" for number in range(_LISTINGS)], 3)
        lines = [
            deleted_listing(name, "a", at) if choose.random() < 0.2 else listing(name, "a", at, price=at)
            for name in names
        ]
        await pushed.feed.bench.update({LISTING: lines})
        await asyncio.sleep(choose.uniform(0.0, 0.4))


def faults(arrived: list[Delivery]) -> tuple[list[str], int]:
    """Return what is wrong with the order in which deliveries arrived, and how many came again."""
    wrong, repeated, number = list[str](), 0, 0
    since: str | None = None
    reached: str | None = None
    for delivery in arrived:
        content = delivery.content
        if content["number"] == number:
            repeated += 1
            if content["since"] != since:
                wrong.append(f"{number} came again from elsewhere")
        elif content["number"] == number + 1:
            if content["since"] != reached:
                wrong.append(f"{content['number']} does not continue {number}")
            number, since = content["number"], content["since"]
        else:
            wrong.append(f"{content['number']} came after {number}")
        reached = content["data"]["next"]
    return wrong, repeated


def copy_of(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Apply entries in order; return the record of each identifier."""
    kept: dict[str, Any] = {}
    for entry in entries:
        if "record" in entry:
            kept[entry["id"]] = entry["record"]
        else:
            kept.pop(entry["id"], None)
    return kept


async def test_nothing_is_lost_or_out_of_order(pushed: Pushed, amount: Callable[[int, int], int]) -> None:
    choose = random.Random(20261128)  # noqa: S311
    kills = amount(6, 200)
    async with AsyncExitStack() as stack:
        receivers: dict[str, Receiver] = {}
        for name, behaviour in unreliable(choose).items():
            receivers[name] = await stack.enter_async_context(receiving(behaviour))
        subscriptions = {
            name: await pushed.subscribe(receiver.url, name=name, resources=("listings",), start="")
            for name, receiver in receivers.items()
        }
        running = await stack.enter_async_context(processes(pushed, 3, choose))
        ends = asyncio.Event()
        changing = asyncio.create_task(change(pushed, choose, ends))
        await running.kill_again(kills, lambda: sum(len(receiver.arrived) for receiver in receivers.values()))
        ends.set()
        await changing
        for receiver in receivers.values():
            receiver.behaviour = accept
        # Whatever backoff or circuit is open: an operator resumes them.
        for name in receivers:
            await pushed.store.edit(name, is_paused=True)
        await asyncio.sleep(3.0)
        for name in receivers:
            await pushed.store.edit(name, is_paused=False)
        current = copy_of((await pushed.feed.changes(None, resources="listings"))[0])
        for name, receiver in receivers.items():
            await receiver.until(lambda receiver=receiver: copy_of(receiver.entries) == current, 120.0)  # type: ignore[misc]
            await pushed.until(subscriptions[name], waiting=0)
    for name, receiver in receivers.items():
        # A delivery counts from when it arrived, whatever became of its answer; an entry of a refused one comes again.
        wrong, repeated = faults(receiver.arrived)
        entries = [entry for delivery in receiver.arrived for entry in delivery.content["data"]["changes"]]
        print(f"{name}: {len(receiver.arrived)} deliveries, {repeated} repeated, {len(wrong)} out of order")
        assert wrong == []
        assert copy_of(entries) == current
    print(f"{kills} processes ended")


async def test_the_work_of_a_process_that_gives_no_sign_is_taken_over(pushed: Pushed) -> None:
    """One that is stopped is for the others as one on another host that has died: they wait for its locks to expire."""
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(receiving()) for _ in range(6)]
        for receiver in receivers:
            await pushed.subscribe(receiver.url, resources=("listings",), start="")
        running = await stack.enter_async_context(processes(pushed, 1))

        async def deliver(price: int) -> None:
            await pushed.feed.bench.update({LISTING: [listing("K0", "a", price, price=price)]})
            for receiver in receivers:
                await receiver.until(
                    lambda receiver=receiver: copy_of(receiver.entries).get("K0", {}).get("ListPrice") == price,  # type: ignore[misc]
                    300.0,
                )

        await deliver(1)
        running.signal(signal.SIGSTOP)
        await running.start()
        await deliver(2)
        running.signal(signal.SIGCONT)
        for price in range(3, 8):
            await deliver(price)
    assert [faults(receiver.arrived)[0] for receiver in receivers] == [[]] * len(receivers)
