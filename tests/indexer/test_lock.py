"""One run at a time: the lock is refused while its holder lives, and taken over when it is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cluster.control import CONTROL_BODY, ensure_index
from indexer import LockedError
from indexer import lock as lock_module
from indexer.clocks import now
from indexer.lock import LOCK_ID, STALE_MILLISECONDS, Holder, locked
from mappings import TEAM
from tests.records import envelope

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench


def holder(**changes: Any) -> Holder:
    """Return a living holder on another host."""
    living = Holder(host="elsewhere", pid=1, incarnation="other", started=0, beat=now())
    return msgspec.structs.replace(living, **changes)


def dead_process() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def hold(bench: Bench, by: Holder) -> None:
    """Write the lock of another run."""
    await ensure_index(bench.client, bench.connection.control_index, CONTROL_BODY)
    document = msgspec.to_builtins(by)
    await bench.client.index(index=bench.connection.control_index, id=LOCK_ID, document=document, refresh=True)


async def is_held(bench: Bench) -> bool:
    """Whether there is a lock document."""
    return bool(await bench.client.exists(index=bench.connection.control_index, id=LOCK_ID))


async def test_a_second_run_is_told_who_holds_the_lock_and_since_when(bench: Bench) -> None:
    await hold(bench, holder(started=1_767_323_045_678))
    with pytest.raises(LockedError, match=r"Process 1 on elsewhere has held the lock since 2026-01-02T03:04:05"):
        await bench.build({TEAM: [envelope(TEAM)]})
    assert await bench.indices() == []
    assert await is_held(bench)


async def test_two_runs_of_one_process_exclude_each_other_too(bench: Bench) -> None:
    async with locked(bench.client, bench.connection.control_index):
        with pytest.raises(LockedError, match=f"Process {os.getpid()}"):
            await bench.build({})
    assert (await bench.build({})).exit_code == 0


@pytest.mark.parametrize(
    "gone",
    [
        holder(beat=now() - STALE_MILLISECONDS - 1000),
        holder(host=socket.gethostname(), pid=dead_process()),
        holder(host=socket.gethostname(), pid=os.getpid(), incarnation="before the restart"),
    ],
    ids=["silent for too long", "dead process of this host", "same number before a restart"],
)
async def test_the_lock_of_a_holder_that_is_gone_is_taken_over_and_given_back(bench: Bench, gone: Holder) -> None:
    await hold(bench, gone)
    assert (await bench.build({})).exit_code == 0
    assert not await is_held(bench)


async def test_a_living_process_of_this_host_keeps_its_lock(bench: Bench) -> None:
    await hold(bench, holder(host=socket.gethostname(), pid=os.getppid()))
    with pytest.raises(LockedError):
        await bench.build({})


async def test_the_heart_beats_while_the_lock_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.02)
    index = bench.connection.control_index
    async with locked(bench.client, index):
        first = (await bench.client.get(index=index, id=LOCK_ID))["_source"]
        latest = first
        while latest["beat"] == first["beat"]:
            await asyncio.sleep(0.02)
            latest = (await bench.client.get(index=index, id=LOCK_ID))["_source"]
    assert latest["started"] == first["started"]
    assert latest["beat"] > first["beat"]


async def test_a_run_that_lost_its_lock_swaps_nothing_and_leaves_the_new_holder_alone(bench: Bench) -> None:
    usurping: list[asyncio.Task[None]] = []

    def on_progress(_report: Any) -> None:
        if not usurping:
            usurping.append(asyncio.create_task(hold(bench, holder())))

    with pytest.raises(LockedError, match="The lock was lost"):
        await bench.build({}, on_progress=on_progress)
    await usurping[0]
    assert await bench.indices() == []
    assert await is_held(bench)
