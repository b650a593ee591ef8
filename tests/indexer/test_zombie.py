"""Writers that sleep through the loss of their lock: nothing of theirs comes to lie behind a mark that is published."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.desk import Desk
from indexer.fate import newest
from indexer.lifecycle import Lifecycle
from indexer.lock_document import Place, State
from indexer.pace import Pace
from indexer.scan import look_up
from indexer.writer import Writer
from mappings import COMPANY, TEAM
from tests.indexer.lines import accept
from tests.records import envelope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from cluster.control import Mark
    from tests.indexer.conftest import Bench

LATER_MILLISECONDS = 60_000


def team(name: str, text: str) -> dict[str, Any]:
    """Return a team that is newer than those of the first build."""
    return envelope(TEAM, {"uuid": name, "name": text}, updated_at="2026-03-03T00:00:00Z")


async def start(bench: Bench) -> None:
    """Build one team."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})).exit_code == 0


def desk(bench: Bench, on_wait: Callable[[str], None] = lambda _: None) -> Desk:
    """Return a desk of the teams."""
    return Desk(bench.engine(), TEAM, Pace(bench.settings), on_wait)


async def hand_in(at: Desk, *names: str) -> None:
    """Apply teams of these names."""
    await at.apply(newest([accept(TEAM, team(name, "new")) for name in names]))


async def stamp(bench: Bench, name: str) -> tuple[int, int]:
    """Return clock and sequence of a team, also of one that no search sees yet."""
    found = await bench.client.get(index=bench.connection.alias(TEAM), id=name)
    return found["_source"]["clock"], found["_source"]["sequence"]


async def declare_dead(bench: Bench) -> None:
    """Make the holder of the write lock look like an earlier process of this host."""
    place = Place(bench.client, bench.connection.control_index, f"write-{bench.connection.alias(TEAM)}")
    found = await place.read()
    if found is not None and found.state.holder is not None:
        gone = msgspec.structs.replace(found.state.holder, incarnation="gone")
        await place.write(State(found.state.token, gone), found)


class Rival:
    """Takes the lock over, publishes `seen`, and has written `unseen`, which no mark may reach yet."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Do nothing yet."""
        self._bench = bench
        self._monkeypatch = monkeypatch
        self._desk = desk(bench)
        self.is_there = False

    def come(self, owner: object, name: str, *, is_after: bool = False) -> None:
        """Come right before or after the next call of a coroutine function; its caller sleeps for a minute there."""
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def hooked(*given: Any, **options: Any) -> Any:
            answer = await original(*given, **options) if is_after else None
            if not self.is_there:
                self.is_there = True
                await self._come()
            return answer if is_after else await original(*given, **options)

        self._monkeypatch.setattr(owner, name, hooked)

    async def _come(self) -> None:
        await declare_dead(self._bench)
        await hand_in(self._desk, "seen")
        await self._desk.publish()
        await hand_in(self._desk, "unseen")
        self._monkeypatch.setattr("indexer.clocks.now", lambda: time.time_ns() // 1_000_000 + LATER_MILLISECONDS)

    async def check(self) -> Mark:
        """Check that no mark has reached what was not published; then publish it, let go, and return its mark."""
        assert self.is_there
        mark = await self._bench.mark(TEAM)
        clock, sequence = await stamp(self._bench, "unseen")
        assert mark.clock < clock
        assert mark.sequence < sequence
        await (await self._desk._opened()).publish()  # the desk itself would give way to the zombie at once
        published = await self._bench.mark(TEAM)
        await self._desk.rest()
        assert published.clock >= clock
        return published


async def test_a_writer_that_slept_before_its_bulk_request_is_stamped_above_what_was_published_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    zombie, is_taken = desk(bench), False

    async def slow_look_up(*given: Any) -> Any:
        nonlocal is_taken
        found = await look_up(*given)
        if not is_taken:
            is_taken = True
            await declare_dead(bench)
            await bench.update({TEAM: [team("rival", "new")]})
        return found

    monkeypatch.setattr("indexer.desk.look_up", slow_look_up)
    outcome = await zombie.apply(newest([accept(TEAM, team("late", "new"))]))
    between = await bench.mark(TEAM)
    assert await stamp(bench, "rival") <= (between.clock, between.sequence)
    clock, sequence = await stamp(bench, "late")
    assert clock > between.clock
    assert sequence > between.sequence
    await zombie.publish()
    await zombie.rest()
    assert (await bench.mark(TEAM)).clock >= clock
    assert (outcome.stale, outcome.refused) == (0, [])


async def test_what_a_writer_had_not_published_when_it_fell_asleep_is_stamped_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    between = await publish_asleep(bench, Rival(bench, monkeypatch), Lifecycle, "refresh")
    assert (await stamp(bench, "early"))[0] > between.clock
    assert (await stamp(bench, "early"))[0] <= (await bench.mark(TEAM)).clock


async def publish_asleep(bench: Bench, rival: Rival, owner: type, method: str) -> Mark:
    """Publish a record with a writer that falls asleep before `method`; return the mark of the rival that came."""
    zombie, waits = desk(bench, lambda _: waits.set()), asyncio.Event()
    await hand_in(zombie, "early")
    rival.come(owner, method)
    publishing = asyncio.create_task(zombie.publish())
    await first_of(publishing, waits)
    between = await rival.check()
    await publishing
    await zombie.rest()
    return between


async def first_of(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    """Wait until a task is over or an event has come."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def test_a_writer_that_slept_before_its_mark_publishes_none_above_what_it_knows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    await publish_asleep(bench, Rival(bench, monkeypatch), Writer, "release_mark")
    assert (await stamp(bench, "early"))[0] <= (await bench.mark(TEAM)).clock


async def test_a_rebuild_that_slept_after_its_swap_publishes_no_mark_above_what_it_knows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    rival = Rival(bench, monkeypatch)
    rival.come(Lifecycle, "swap", is_after=True)
    assert (await bench.build({TEAM: [envelope(TEAM), envelope(TEAM, {"uuid": "built"})]})).exit_code == 0
    await rival.check()
    assert await bench.live(TEAM) == "teams-v0002"
    assert (await stamp(bench, "built"))[0] <= (await bench.mark(TEAM)).clock


async def test_a_first_build_that_slept_after_its_swap_leaves_the_later_mark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.build({})
    rival = Rival(bench, monkeypatch)
    rival.come(Lifecycle, "swap", is_after=True)
    assert (await bench.build({TEAM: [envelope(TEAM)]})).exit_code == 0
    await rival.check()
