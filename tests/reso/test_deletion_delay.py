"""How long a deleted listing is served: the time from its deletion at the source to its tombstone, on a set clock."""

from pathlib import Path
from random import Random

import pytest

from mappings import LISTING, SOLD_LISTING
from tests.indexer.conftest import Bench
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import small_world
from tests.reso.sync.test_source_limits import Clock

_POLL_SECONDS = 240.0
_ROUNDS = 60
_DELETIONS = 12
_HOURS = 2.0
_HOUR = 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of comparisons."""
    stopped = Clock()
    for module in ("indexer.reso.sync.key_comparisons", "indexer.reso.sync.entity_sync"):
        monkeypatch.setattr(f"{module}.time", stopped)
    return stopped


class Delays:
    """Deletes served listings at random times, and measures when their tombstones appear."""

    def __init__(self, server: ResoServer, bench: Bench, clock: Clock) -> None:
        """Begin without deletions."""
        self._server, self._bench, self._clock, self._chance = server, bench, clock, Random(7)  # noqa: S311
        self._deleted_at: dict[str, float] = {}
        self.seconds: list[float] = []

    async def delete_one(self) -> None:
        """Delete one of the listings that are served, some time before the next round."""
        live = [key for resource in (LISTING, SOLD_LISTING) for key in await self._served(resource, is_deleted=False)]
        key = self._chance.choice([each for each in self._server.keys("Property") if each in live])
        self._server.delete("Property", key)
        self._deleted_at[key] = self._clock.now - self._chance.uniform(0, _POLL_SECONDS)

    async def measure(self) -> None:
        """Note the delays of the tombstones that are new."""
        for resource in (LISTING, SOLD_LISTING):
            for key in await self._served(resource, is_deleted=True):
                if (at := self._deleted_at.pop(key, None)) is not None:
                    self.seconds.append(self._clock.now - at)

    async def _served(self, resource: object, *, is_deleted: bool) -> list[str]:
        documents = await self._bench.served(resource)  # type: ignore[arg-type]
        return [key for key, each in documents.items() if each["deleted"] is is_deleted]


@pytest.mark.parametrize("has_events", [True, False])
async def test_a_deleted_listing_is_not_served_for_longer_than_the_setting(
    bench: Bench, tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str], has_events: bool
) -> None:
    without = frozenset() if has_events else frozenset({"EntityEvent"})
    world = small_world(properties=150, media=20)
    with serve_in_thread(ServerSettings(without=without), world) as server:
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
        way = "with events" if has_events else f"without events, BROKERAGE_RESO_VERIFY_HOURS={_HOURS:g}"
        print(f"\nfrom a deletion to its tombstone {way}, a round every {_POLL_SECONDS:.0f} s: {longest:.0f} s at most")
    assert len(delays.seconds) == _DELETIONS
    assert longest <= (_POLL_SECONDS if has_events else _HOURS * _HOUR)
