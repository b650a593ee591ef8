"""Waiting for a lock: timeouts, notices, takeover of a silent holder, and requests to the holder."""

import asyncio

import pytest

from indexer import IndexerSettings, LockedError
from indexer import lock as lock_module
from indexer.lock import DistributedLock, LockState, LockStore, VersionedLockState, acquire_lock
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import hold, lock_holder, lock_state, lock_store
from tests.waiting import Hurry, until_true


async def waiting(bench: Bench, seconds: float, notices: list[str] | None = None) -> DistributedLock:
    say = ([] if notices is None else notices).append
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=seconds, on_wait=say) as lock:
        return lock


def test_the_default_wait_is_long_enough_to_take_over_a_silent_holder() -> None:
    assert IndexerSettings().lock_wait_seconds >= lock_module.HOLDER_TIMEOUT_SECONDS
    assert lock_module.HOLDER_TIMEOUT_SECONDS > 3 * lock_module.HEARTBEAT_SECONDS


async def test_a_wait_of_zero_seconds_refuses_at_the_first_poll(bench: Bench) -> None:
    await hold(bench, lock_holder())
    notices: list[str] = []
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await waiting(bench, 0, notices)
    assert notices == []


async def test_a_silent_foreign_holder_is_taken_over_by_a_wait_of_just_its_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "HOLDER_TIMEOUT_SECONDS", 60.0)
    await hold(bench, lock_holder())
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await waiting(bench, 0.2)
    monkeypatch.setattr(lock_module, "HOLDER_TIMEOUT_SECONDS", 1.0)
    notices: list[str] = []
    taken = await waiting(bench, 1.0, notices)
    assert (taken.token, taken.taken_over_from) == (8, "brokerage-run-7-other")
    assert notices == [
        "Process 1 on elsewhere has held the lock since 1970-01-01T00:00:00+00:00: waiting up to 1 s more."
    ]


async def test_a_foreign_holder_with_heartbeats_is_not_taken_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, polls = LockStore.read, 0

    async def read_after_a_beat(self: LockStore) -> VersionedLockState | None:
        nonlocal polls
        polls += 1
        await self.write(LockState(7, lock_holder()), await read(self))
        return await read(self)

    await hold(bench, lock_holder())
    monkeypatch.setattr(lock_module, "HOLDER_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(lock_module, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(lock_module, "_NOTICE_INTERVAL_SECONDS", 1.0)
    monkeypatch.setattr(lock_module, "time", Hurry(0.05))
    monkeypatch.setattr(LockStore, "read", read_after_a_beat)
    notices: list[str] = []
    with pytest.raises(LockedError, match="Process 1 on elsewhere has held the lock since 1970"):
        await waiting(bench, 3.0, notices)
    assert len(notices) == 3
    assert polls > len(notices)
    assert (await lock_state(bench)).token == 7


async def test_a_released_lock_goes_to_the_waiting_run(bench: Bench) -> None:
    index, waits = bench.connection.control_index, asyncio.Event()

    async def wait() -> DistributedLock:
        async with acquire_lock(bench.client, index, wait_seconds=60, on_wait=lambda _waiting: waits.set()) as lock:
            return lock

    async with acquire_lock(bench.client, index) as first:
        waiter = asyncio.create_task(wait())
        await waits.wait()
    second = await waiter
    assert (second.token, second.taken_over_from) == (first.token + 1, None)


async def test_each_of_many_waiting_runs_gets_the_lock_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_POLL_SECONDS", 0.02)
    waiters = [asyncio.create_task(waiting(bench, 60)) for _ in range(5)]
    assert sorted(lock.token for lock in await asyncio.gather(*waiters)) == [1, 2, 3, 4, 5]


async def test_a_holder_sees_the_request_of_a_waiting_run_while_it_lasts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A waiting run renews its request each second: on a busy machine that takes longer than a request lasts.
    monkeypatch.setattr(lock_module, "time", Hurry(0.0))
    assert lock_module._REQUEST_TTL_SECONDS > 2 * lock_module._POLL_SECONDS
    requests: list[int | None] = [None]

    async def is_renewed() -> bool:
        requests.append(await lock_store(bench).request_version())
        return requests[-1] != requests[-2]

    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        assert not await lock.is_requested()
        waiter = asyncio.create_task(waiting(bench, 60))
        for _ in range(4):
            await until_true(is_renewed)
            assert await lock.is_requested()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not await lock.is_requested()


async def test_the_request_of_a_killed_waiter_expires(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        await lock_store(bench).request()
        assert await lock.is_requested()
        monkeypatch.setattr(lock_module, "_REQUEST_TTL_SECONDS", 0.0)
        assert not await lock.is_requested()
