"""How long a deleted listing is served: the time from its deletion at the source to its tombstone, on a set clock."""

from pathlib import Path
from random import Random

import pytest

from mappings import LISTING, SOLD_LISTING
from tests.indexer.conftest import Bench
from tests.reso.clock import Clock
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import small_world

_POLL_SECONDS = 240.0
_ROUNDS = 60
_DELETIONS = 12
_HOURS = 2.0
_HOUR = 3600.0


class Delays:
    """Deletes served listings at random times, and measures when their tombstones appear."""

    def __init__(self, server: ResoServer, bench: Bench, clock: Clock) -> None:
        self._server, self._bench, self._clock, self._chance = server, bench, clock, Random(7)  # noqa: S311
        self._deleted_at: dict[str, float] = {}
        self.seconds: list[float] = []

    async def delete_one(self) -> None:
        """Delete one of the listings that are served, some time before the next round."""
        live = [key for resource in (LISTING, SOLD_LISTING) for key in await self._served(resource, is_deleted=False)]
        key = self._chance.choice([value for value in self._server.keys("Property") if value in live])
        self._server.delete("Property", key)
        self._deleted_at[key] = self._clock.now - self._chance.uniform(0, _POLL_SECONDS)

    async def measure(self) -> None:
        for resource in (LISTING, SOLD_LISTING):
            for key in await self._served(resource, is_deleted=True):
                if (at := self._deleted_at.pop(key, None)) is not None:
                    self.seconds.append(self._clock.now - at)

    async def _served(self, resource: object, *, is_deleted: bool) -> list[str]:
        documents = await self._bench.served(resource)  # type: ignore[arg-type]
        return [key for key, row in documents.items() if row["deleted"] is is_deleted]


async def test_a_deleted_listing_is_not_served_for_longer_than_the_setting(
    bench: Bench, tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = small_world(properties=150, media=20)
    with serve_in_thread(ServerSettings(without=frozenset({"EntityEvent"})), world) as server:
        into, delays = ReplicationBench(bench, server, tmp_path), Delays(server, bench, clock)
        async with into.rounds(settings={"verify_hours": _HOURS, "page_size": 20}) as rounds:
            await rounds.run_round()
            for number in range(_ROUNDS):
                clock.now += _POLL_SECONDS
                if number < _DELETIONS:
                    await delays.delete_one()
                await rounds.run_round()
                await delays.measure()
    longest = max(delays.seconds)
    with capsys.disabled():
        print(
            f"\nfrom a deletion to its tombstone without events, BROKERAGE_RESO_VERIFY_HOURS={_HOURS:g}, a round every "
            f"{_POLL_SECONDS:.0f} s: {longest:.0f} s at most"
        )
    assert len(delays.seconds) == _DELETIONS
    assert longest <= _HOURS * _HOUR
