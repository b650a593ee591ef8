"""The heartbeat of a lock continues, survives the failure of single heartbeats, and detects a lost lock."""

import asyncio
from typing import Any

import pytest
from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from indexer import lock as lock_module
from indexer.lock import DistributedLock, LockState, LockStore, VersionedLockState, acquire_lock
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import lock_state, lock_store


async def test_heartbeats_continue_while_the_lock_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    async with acquire_lock(bench.client, bench.connection.control_index):
        first = await lock_store(bench).read()
        latest = first
        while latest == first:
            await asyncio.sleep(0.02)
            latest = await lock_store(bench).read()
    assert first is not None
    assert latest is not None
    assert latest.state == first.state
    assert latest.seq_no > first.seq_no


async def test_a_heartbeat_whose_response_was_lost_is_still_ours(bench: Bench) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        await lock_store(bench).write(lock._state, lock._version)
        await lock.verify()
        await lock.verify()
    assert await lock_state(bench) == LockState(1, None)


async def test_a_lost_connection_ends_no_run_that_verifies_its_lock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, lost = bench.client.transport.perform_request, ["request", "response"]

    async def losing(method: str, target: str, **given: Any) -> Any:
        if method != "PUT" or not lost:
            return await send(method, target, **given)
        if lost.pop() == "response":
            await send(method, target, **given)
        raise ConnectionError("lost")

    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        monkeypatch.setattr(bench.client.transport, "perform_request", losing)
        await lock.verify()
    assert lost == []


async def test_a_run_that_is_stopped_while_it_gives_its_lock_back_is_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_ending, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_: DistributedLock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_ending.set()
            await may_end.wait()

    async def run() -> None:
        async with acquire_lock(bench.client, bench.connection.control_index):
            await asyncio.sleep(0)

    monkeypatch.setattr(DistributedLock, "keep_alive", slow)
    running = asyncio.create_task(run())
    await is_ending.wait()
    running.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await lock_state(bench) == LockState(1, None)


async def test_a_heartbeat_that_hangs_is_abandoned_for_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(lock_module, "_HEARTBEAT_TIMEOUT_SECONDS", 0.5)
    write, calls, enough = LockStore.write, 0, asyncio.Event()

    async def hanging(self: LockStore, given: LockState, over: VersionedLockState | None) -> VersionedLockState:
        nonlocal calls
        calls += 1
        if calls == 2:
            await asyncio.sleep(3600)
        if calls == 4:
            enough.set()
        return await write(self, given, over)

    monkeypatch.setattr(LockStore, "write", hanging)
    async with acquire_lock(bench.client, bench.connection.control_index):
        await enough.wait()


async def test_a_heartbeat_that_arrives_late_does_not_keep_the_lock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, is_late = LockStore.read, False

    async def reading(self: LockStore) -> VersionedLockState | None:
        nonlocal is_late
        current = await read(self)
        if is_late and current is not None:
            is_late = False
            await self.write(current.state, current)  # after the lock was read, and before it is released
        return current

    monkeypatch.setattr(LockStore, "read", reading)
    async with acquire_lock(bench.client, bench.connection.control_index):
        is_late = True
    assert await lock_state(bench) == LockState(1, None)
