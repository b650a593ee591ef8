"""A copy that follows a real service through updates, moves, rebuilds and a rollback, killed again and again.

Nothing may be missed on the way: the pull compares itself with the service as it goes, and no difference is repaired.
"""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from cluster.connection import connect
from indexer import rollback
from mappings import LISTING, Resource
from service.keys.store import KeyGrant, KeyStore
from tests.consumer.market_source import MarketSource, number_of
from tests.consumer.pull_process import PullProcess, copied
from tests.consumer.service_process import FOLLOWED, ServiceProcess, run_service
from tests.indexer.conftest import Bench, bench
from tests.records import write

__all__ = ["bench"]

SCOPE = "ab"
CHANGES_A_SECOND = 200


@dataclass
class FollowedService:
    """The source, the indexer, the service as a process, and who follows it."""

    bench: Bench
    market: MarketSource
    chance: random.Random
    service: ServiceProcess
    follower: PullProcess
    written: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    async def write(self, seconds: float, most: int, others: Collection[asyncio.Task[None]]) -> float:
        """Write as many changes a second as there should be, until it is time and the others have ended.

        Return the seconds that it took. No more than `most` changes are written together.
        """
        began = time.monotonic()
        while time.monotonic() - began < seconds or not all(each.done() for each in others):
            due = int((time.monotonic() - began) * CHANGES_A_SECOND) - self.written
            if due < CHANGES_A_SECOND / 4:
                await asyncio.sleep(0.05)
                continue
            lines = self.market.changes(min(due, most))
            self.written += sum(map(len, lines.values()))
            await self._update(lines)
        return time.monotonic() - began

    async def _update(self, lines: dict[Resource, list[dict[str, Any]]]) -> None:
        folder = self.bench.folder.parent / "updates" / str(self.counts["batches"])
        own = replace(self.bench, folder=folder / "source")
        assert (await own.update({resource: some for resource, some in lines.items() if some})).exit_code == 0
        self.counts["batches"] += 1
        shutil.rmtree(folder)

    async def rebuild(self, *, drift: int = 0) -> None:
        """Rebuild listings and offices from the source, of which so many changes were not sent by updates."""
        self.market.changes(drift)
        own = replace(self.bench, folder=self.bench.folder.parent / "whole")
        async with connect(own.connection, connections=4, timeout=60) as client:
            write(own.folder, self.market.source())
            summary = await replace(own, client=client).build_folder(FOLLOWED)
        assert summary.exit_code == 0, summary
        self.counts["rebuilds"] += 1

    async def roll_back(self) -> None:
        """Go back to the generation of listings before this one."""
        await rollback(self.bench.engine(lock_wait_seconds=30.0), LISTING)
        self.counts["rollbacks"] += 1


@pytest.fixture
async def world(bench: Bench, tmp_path: Path, amount: Callable[[int, int], int]) -> AsyncIterator[FollowedService]:
    """Three companies, of which the key reads two."""
    chance, counts = random.Random(9), Counter[str]()  # noqa: S311 - repeatable
    market = MarketSource(chance, counts)
    market.open(amount(600, 8_000), amount(30, 300))
    key = await KeyStore(bench.client, bench.connection.keys_index).create(KeyGrant("two", tuple(SCOPE), rate=None))
    assert (await bench.build(market.source())).exit_code == 0
    async with run_service(bench, key.reveal(), tmp_path / "service.log") as service:
        follower = PullProcess(tmp_path / "copy", service.url, service.key, amount(2, 20))
        try:
            yield FollowedService(bench, market, chance, service, follower, counts=counts)
        finally:
            await follower.stop()


async def kills(world: FollowedService, count: int, seconds: float) -> None:
    """Kill who follows so often, whenever it is."""
    began = time.monotonic()
    for moment in sorted(world.chance.uniform(0.2 * seconds, seconds) for _ in range(count)):
        await asyncio.sleep(began + moment - time.monotonic())
        await world.follower.kill(world.chance.uniform(0, seconds / 100))


async def rebuild_and_roll_back(world: FollowedService, seconds: float, rebuilds: int) -> None:
    for _ in range(rebuilds):
        await asyncio.sleep(seconds / 4 / rebuilds)
        await world.rebuild(drift=len(world.market.alive) // 50)
        await asyncio.sleep(seconds / 4 / rebuilds)
        if not world.counts["rollbacks"]:
            await world.follower.until_complete()
            await world.roll_back()
            await asyncio.sleep(world.chance.uniform(0.5, 4))
            await world.follower.kill(0)


async def test_a_copy_follows_whatever_happens(world: FollowedService, amount: Callable[[int, int], int]) -> None:
    seconds, times = amount(6, 600), amount(2, 10)
    await world.follower.start()
    async with asyncio.TaskGroup() as group:
        works = kills(world, times - 1, seconds), rebuild_and_roll_back(world, seconds, amount(1, 3))
        took = await world.write(seconds, amount(300, 2_000), [group.create_task(each) for each in works])

    # What a rollback took back comes again.
    await world.rebuild()
    await world.service.settled()
    await world.follower.end()
    code, ended, requests = await world.follower.once(), world.follower.ended(), world.service.requests()
    print(
        f"\n{world.written:,} changes in {took:.0f} s ({world.written / took:.0f}/s), {dict(world.counts)}; "
        f"{world.follower.kills} kills, {ended.snapshots} snapshots, {ended.changes:,} changes sent, "
        f"{ended.verifications} verifications: {ended.proofs}, {dict(requests)}, {sum(requests.values()):,} requests"
    )
    assert ended.different == []
    assert code == 0
    assert requests["/v1/changes", HTTPStatus.GONE] > 0
    for resource in FOLLOWED:
        copy = copied(world.follower.folder, resource)
        assert copy == await world.service.holds(resource)
        seen = {name: (company, number_of(resource, record)) for name, (company, _, _, record) in copy.items()}
        assert seen == world.market.seen(resource, SCOPE)
