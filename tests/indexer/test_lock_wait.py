"""Waiting for a lock: how long, what one is told, when a silent holder is taken over, what the holder sees of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from indexer import IndexerSettings, LockedError, lock_wait
from indexer import lock as lock_module
from indexer.lock import Lock, locked
from indexer.lock_document import Found, Place, State
from tests.indexer.test_lock import hold, holder, place, state

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench


async def waiting(bench: Bench, seconds: float, told: list[str] | None = None) -> Lock:
    """Wait for the lock, hold it for a moment, and return it."""
    say = ([] if told is None else told).append
    async with locked(bench.client, bench.connection.control_index, wait_seconds=seconds, on_wait=say) as lock:
        return lock


def test_the_default_wait_is_long_enough_to_take_over_a_silent_holder() -> None:
    assert IndexerSettings().lock_wait_seconds >= lock_wait.SILENT_SECONDS
    assert lock_wait.SILENT_SECONDS > 3 * lock_module.HEARTBEAT_SECONDS


async def test_a_wait_of_no_time_refuses_at_the_first_look(bench: Bench) -> None:
    await hold(bench, holder())
    told: list[str] = []
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await waiting(bench, 0, told)
    assert told == []


async def test_a_silent_foreign_holder_is_taken_over_by_a_wait_of_just_its_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_wait, "SILENT_SECONDS", 60.0)
    await hold(bench, holder())
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await waiting(bench, 0.2)
    monkeypatch.setattr(lock_wait, "SILENT_SECONDS", 1.0)
    told: list[str] = []
    taken = await waiting(bench, 1.0, told)
    assert (taken.token, taken.inherited) == (8, "brokerage-run-7-other")
    assert told == [
        "Process 1 on elsewhere has held the lock since 1970-01-01T00:00:00+00:00: waiting for it, 1 s more at most."
    ]


async def test_a_foreign_holder_that_beats_is_not_taken_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read, looks = Place.read, 0

    async def read_after_a_beat(self: Place) -> Found | None:
        nonlocal looks
        looks += 1
        await self.write(State(7, holder()), await read(self))
        return await read(self)

    await hold(bench, holder())
    monkeypatch.setattr(lock_wait, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(lock_wait, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(lock_wait, "_TELL_SECONDS", 1.0)
    monkeypatch.setattr(Place, "read", read_after_a_beat)
    told: list[str] = []
    with pytest.raises(LockedError, match="Process 1 on elsewhere has held the lock since 1970"):
        await waiting(bench, 3.0, told)
    assert 2 <= len(told) <= 4
    assert looks > len(told)
    assert (await state(bench)).token == 7


async def test_a_lock_that_is_given_back_goes_to_the_one_that_waits(bench: Bench) -> None:
    index, waits = bench.connection.control_index, asyncio.Event()

    async def wait() -> Lock:
        async with locked(bench.client, index, wait_seconds=60, on_wait=lambda _told: waits.set()) as lock:
            return lock

    async with locked(bench.client, index) as first:
        waiter = asyncio.create_task(wait())
        await waits.wait()
    second = await waiter
    assert (second.token, second.inherited) == (first.token + 1, None)


async def test_of_many_that_wait_each_gets_the_lock_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_wait, "_LOOK_SECONDS", 0.02)
    waiters = [asyncio.create_task(waiting(bench, 60)) for _ in range(5)]
    assert sorted(lock.token for lock in await asyncio.gather(*waiters)) == [1, 2, 3, 4, 5]


async def test_a_holder_sees_that_it_is_waited_for_and_for_how_long(bench: Bench) -> None:
    async with locked(bench.client, bench.connection.control_index) as lock:
        assert not await lock.is_wanted()
        waiter, wanted = asyncio.create_task(waiting(bench, 60)), False
        while not wanted:
            await asyncio.sleep(0.02)
            wanted = await lock.is_wanted()
        for _ in range(10):
            await asyncio.sleep(0.3)
            assert await lock.is_wanted()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not await lock.is_wanted()


async def test_what_a_killed_waiter_left_behind_counts_for_a_moment_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with locked(bench.client, bench.connection.control_index) as lock:
        await place(bench).wish()
        assert await lock.is_wanted()
        monkeypatch.setattr(lock_module, "_WISH_SECONDS", 0.0)
        assert not await lock.is_wanted()
