"""Writers that are suspended while they lose their lock: none of their writes may end below a published mark."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from elasticsearch import NotFoundError

from cluster.control_index import Mark
from indexer import LockedError
from indexer.changes.stamps import newest_by_id
from indexer.changes.update_writer import UpdateWriter
from indexer.lock import LockState, LockStore
from mappings import COMPANY, TEAM
from tests.indexer.client_requests import before, behind
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.indexer.raw_documents import get_document
from tests.indexer.shifted_clock import ShiftedTime, shifted_clock
from tests.records import envelope

LATER_SECONDS = 50.0


def team(name: str, text: str) -> dict[str, Any]:
    """Return a team that is newer than those of the first build."""
    return envelope(TEAM, {"uuid": name, "name": text}, updated_at="2026-03-03T00:00:00Z")


async def start(bench: Bench) -> None:
    """Build one team."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})).exit_code == 0


async def apply_updates(at: UpdateWriter, *names: str) -> None:
    await at.apply(newest_by_id([parse_line(TEAM, team(name, "new")) for name in names]))


async def stamp(bench: Bench, name: str) -> tuple[int, int]:
    """Return clock and sequence of a team, including one not yet visible to searches."""
    current = await get_document(bench.client, bench.connection.alias(TEAM), name)
    return current["_source"]["clock"], current["_source"]["sequence"]


async def expire_lock(bench: Bench) -> None:
    """Make the holder of the write lock look like an earlier process of this host."""
    store = LockStore(bench.client, bench.connection.control_index, f"write-{bench.connection.alias(TEAM)}")
    current = await store.read()
    if current is not None and current.state.holder is not None:
        gone = msgspec.structs.replace(current.state.holder, incarnation="gone")
        await store.write(LockState(current.state.token, gone), current)


class Rival:
    """Takes over the lock, publishes `seen`, and has written `unseen`, which no mark may reach yet."""

    def __init__(self, bench: Bench, clock: ShiftedTime) -> None:
        self._bench, self._clock = bench, clock
        self._writer = bench.writer()
        self.is_there = False

    async def come(self, _response: object = None) -> None:
        """Come while another writer sleeps for most of a minute."""
        self.is_there = True
        await expire_lock(self._bench)
        await apply_updates(self._writer, "seen")
        await self._writer.publish()
        await apply_updates(self._writer, "unseen")
        self._clock.ahead = LATER_SECONDS

    async def check(self) -> Mark:
        """Check that no mark has reached what was unpublished; then publish it, release the lock, return its mark."""
        assert self.is_there
        mark = await self._bench.mark(TEAM)
        clock, sequence = await stamp(self._bench, "unseen")
        assert mark.clock < clock
        assert mark.sequence < sequence
        session = await self._writer.open_session()
        await session.publish()  # the update writer itself would yield to the zombie at once
        published = await self._bench.mark(TEAM)
        await self._writer.release()
        assert published.clock >= clock
        return published


@pytest.fixture
def rival(bench: Bench) -> Iterator[Rival]:
    with shifted_clock(0.0) as clock:
        yield Rival(bench, clock)


async def test_a_writer_that_slept_before_its_bulk_request_is_stamped_above_what_was_published_meanwhile(
    bench: Bench,
) -> None:
    async def overtake() -> None:
        await expire_lock(bench)
        await bench.update({TEAM: [team("rival", "new")]})

    await start(bench)
    zombie = bench.writer()
    with before(bench.client, "POST /_bulk", overtake):
        outcome = await zombie.apply(newest_by_id([parse_line(TEAM, team("late", "new"))]))
    between = await bench.mark(TEAM)
    assert await stamp(bench, "rival") <= (between.clock, between.sequence)
    clock, sequence = await stamp(bench, "late")
    assert clock > between.clock
    assert sequence > between.sequence
    await zombie.publish()
    await zombie.release()
    assert (await bench.mark(TEAM)).clock >= clock
    assert (outcome.stale, outcome.rejected) == ([], [])


async def test_a_writer_that_slept_before_its_fence_writes_nothing_without_the_lock(bench: Bench, rival: Rival) -> None:
    await start(bench)
    bench.settings = replace(bench.settings, write_wait_seconds=0.0)
    with before(bench.client, "POST /_aliases", rival.come, having="-writer-"), pytest.raises(LockedError):
        await apply_updates(bench.writer(), "early")
    with pytest.raises(NotFoundError):
        await stamp(bench, "early")
    await rival.check()


@pytest.mark.parametrize(("asleep", "is_stamped_again"), [("POST /_refresh", True), ("PUT /_doc/mark-", False)])
async def test_a_writer_that_slept_before_its_refresh_or_its_mark_publishes_none_above_what_it_knows(
    bench: Bench, rival: Rival, asleep: str, is_stamped_again: bool
) -> None:
    await start(bench)
    waits = asyncio.Event()
    zombie = bench.writer(lambda _: waits.set())
    await apply_updates(zombie, "early")
    with before(bench.client, asleep, rival.come):
        publishing = asyncio.create_task(zombie.publish())
        waiting = asyncio.create_task(waits.wait())
        await asyncio.wait([publishing, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        between = await rival.check()
        await publishing
    await zombie.release()
    clock, _ = await stamp(bench, "early")
    assert clock > between.clock or not is_stamped_again
    assert clock <= (await bench.mark(TEAM)).clock


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_build_that_slept_after_its_swap_leaves_the_later_mark(
    bench: Bench, rival: Rival, is_first: bool
) -> None:
    await (bench.build({}) if is_first else start(bench))
    swap = f"'alias': '{bench.connection.alias(TEAM)}'"
    with behind(bench.client, "POST /_aliases", rival.come, having=swap):
        assert (await bench.build({TEAM: [envelope(TEAM), envelope(TEAM, {"uuid": "built"})]})).exit_code == 0
    await rival.check()
    assert await bench.live(TEAM) == ("teams-v0001" if is_first else "teams-v0002")
    assert (await stamp(bench, "built"))[0] <= (await bench.mark(TEAM)).clock
