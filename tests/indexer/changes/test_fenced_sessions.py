"""Writers that are suspended while they lose their lock: none of their writes may end below a published mark."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from elasticsearch import NotFoundError

from cluster.control_index import Mark
from indexer import LockedError
from indexer.bulk import AdaptiveLimit
from indexer.changes import write_session
from indexer.changes.stamps import newest_by_id
from indexer.changes.update_writer import UpdateWriter
from indexer.changes.write_session import WriteSession
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.lock import LockState, LockStore
from indexer.scan import look_up_rows
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.indexer.raw_documents import get_document
from tests.records import envelope

LATER_MILLISECONDS = 60_000


def team(name: str, text: str) -> dict[str, Any]:
    """Return a team that is newer than those of the first build."""
    return envelope(TEAM, {"uuid": name, "name": text}, updated_at="2026-03-03T00:00:00Z")


async def start(bench: Bench) -> None:
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})).exit_code == 0


def update_writer(bench: Bench, on_wait: Callable[[str], None] = lambda _: None) -> UpdateWriter:
    return UpdateWriter(bench.engine(), TEAM, AdaptiveLimit(bench.settings), on_wait)


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

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bench = bench
        self._monkeypatch = monkeypatch
        self._writer = update_writer(bench)
        self.is_there = False

    def come(self, owner: object, name: str, *, is_after: bool = False) -> None:
        """Take over before or after the next call of a coroutine function; its caller sleeps for a minute there."""
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def hooked(*given: Any, **options: Any) -> Any:
            answer = await original(*given, **options) if is_after else None
            if not self.is_there:
                self.is_there = True
                await self._come()
            return answer if is_after else await original(*given, **options)

        self._monkeypatch.setattr(owner, name, hooked)

    async def _come(self) -> None:
        await expire_lock(self._bench)
        await apply_updates(self._writer, "seen")
        await self._writer.publish()
        await apply_updates(self._writer, "unseen")
        self._monkeypatch.setattr(
            "indexer.changes.stamps.now_milliseconds", lambda: time.time_ns() // 1_000_000 + LATER_MILLISECONDS
        )

    async def check(self) -> Mark:
        """Check that no mark has reached what was unpublished; then publish it, release the lock, return its mark."""
        assert self.is_there
        mark = await self._bench.mark(TEAM)
        clock, sequence = await stamp(self._bench, "unseen")
        assert mark.clock < clock
        assert mark.sequence < sequence
        await (
            await self._writer._open_session()
        ).publish()  # the update writer itself would yield to the zombie at once
        published = await self._bench.mark(TEAM)
        await self._writer.release()
        assert published.clock >= clock
        return published


async def test_a_writer_that_slept_before_its_bulk_request_is_stamped_above_what_was_published_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    zombie, is_taken = update_writer(bench), False

    async def slow_look_up(*given: Any) -> Any:
        nonlocal is_taken
        current = await look_up_rows(*given)
        if not is_taken:
            is_taken = True
            await expire_lock(bench)
            await bench.update({TEAM: [team("rival", "new")]})
        return current

    monkeypatch.setattr("indexer.changes.update_writer.look_up_rows", slow_look_up)
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


async def test_a_writer_that_slept_before_its_fence_writes_nothing_without_the_lock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    rival = Rival(bench, monkeypatch)
    rival.come(write_session, "create_fence")
    bench.settings = replace(bench.settings, write_wait_seconds=0.0)
    with pytest.raises(LockedError):
        await apply_updates(update_writer(bench), "early")
    with pytest.raises(NotFoundError):
        await stamp(bench, "early")
    await rival.check()


async def test_what_a_writer_had_not_published_when_it_fell_asleep_is_stamped_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    between = await publish_asleep(bench, Rival(bench, monkeypatch), GenerationLifecycle, "refresh")
    assert (await stamp(bench, "early"))[0] > between.clock
    assert (await stamp(bench, "early"))[0] <= (await bench.mark(TEAM)).clock


async def publish_asleep(bench: Bench, rival: Rival, owner: type, method: str) -> Mark:
    zombie, waits = update_writer(bench, lambda _: waits.set()), asyncio.Event()
    await apply_updates(zombie, "early")
    rival.come(owner, method)
    publishing = asyncio.create_task(zombie.publish())
    await first_of(publishing, waits)
    between = await rival.check()
    await publishing
    await zombie.release()
    return between


async def first_of(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    """Wait until a task or an event is done."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def test_a_writer_that_slept_before_its_mark_publishes_none_above_what_it_knows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    await publish_asleep(bench, Rival(bench, monkeypatch), WriteSession, "publish_mark")
    assert (await stamp(bench, "early"))[0] <= (await bench.mark(TEAM)).clock


async def test_a_rebuild_that_slept_after_its_swap_publishes_no_mark_above_what_it_knows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    rival = Rival(bench, monkeypatch)
    rival.come(GenerationLifecycle, "swap", is_after=True)
    assert (await bench.build({TEAM: [envelope(TEAM), envelope(TEAM, {"uuid": "built"})]})).exit_code == 0
    await rival.check()
    assert await bench.live(TEAM) == "teams-v0002"
    assert (await stamp(bench, "built"))[0] <= (await bench.mark(TEAM)).clock


async def test_a_first_build_that_slept_after_its_swap_leaves_the_later_mark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.build({})
    rival = Rival(bench, monkeypatch)
    rival.come(GenerationLifecycle, "swap", is_after=True)
    assert (await bench.build({TEAM: [envelope(TEAM)]})).exit_code == 0
    await rival.check()
