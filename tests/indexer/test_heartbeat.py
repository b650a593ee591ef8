"""The heart of a lock beats, survives what happens to single beats, and tells what is still held."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from indexer import lock as lock_module
from indexer.lock import locked
from indexer.lock_document import Found, Place, State
from tests.indexer.test_lock import place, state

if TYPE_CHECKING:
    import pytest

    from tests.indexer.conftest import Bench


async def test_the_heart_beats_while_the_lock_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    async with locked(bench.client, bench.connection.control_index):
        first = await place(bench).read()
        latest = first
        while latest == first:
            await asyncio.sleep(0.02)
            latest = await place(bench).read()
    assert first is not None
    assert latest is not None
    assert latest.state == first.state
    assert latest.seq_no > first.seq_no


async def test_a_beat_whose_answer_was_lost_is_still_ours(bench: Bench) -> None:
    async with locked(bench.client, bench.connection.control_index) as lock:
        await place(bench).write(lock._state, lock._found)
        await lock.verify()
        await lock.verify()
    assert await state(bench) == State(1, None)


async def test_a_beat_that_hangs_is_given_up_for_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(lock_module, "_BEAT_LIMIT_SECONDS", 0.5)
    write, calls, enough = Place.write, 0, asyncio.Event()

    async def hanging(self: Place, given: State, over: Found | None) -> Found:
        nonlocal calls
        calls += 1
        if calls == 2:
            await asyncio.sleep(3600)
        if calls == 4:
            enough.set()
        return await write(self, given, over)

    monkeypatch.setattr(Place, "write", hanging)
    async with locked(bench.client, bench.connection.control_index):
        await enough.wait()
