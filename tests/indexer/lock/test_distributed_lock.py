"""One run at a time: the lock is refused while its holder lives, and taken over when the holder is gone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from cluster.control_index import CONTROL_BODY, ensure_index
from indexer import ElasticsearchError, LockedError
from indexer.errors import translate_client_errors
from indexer.lock import LockHolder, LockState, LockStore, acquire_lock, create_fence
from mappings import COMPANY, TEAM
from tests.indexer.bulk_writes import created_index
from tests.indexer.conftest import Bench
from tests.indexer.faulty_responses import FaultyResponses
from tests.records import envelope

# Holds the lock in another process until it is killed.
HOLD = """
import asyncio, sys
from cluster.connection import ConnectionSettings, connect
from indexer.lock import acquire_lock
async def hold(url, index):
    async with connect(ConnectionSettings(url=(url,)), connections=4, timeout=30) as client:
        async with acquire_lock(client, index, wait_seconds=0) as lock:
            print(lock.token, lock.opaque_id, flush=True)
            await asyncio.sleep(3600)
asyncio.run(hold(*sys.argv[1:]))
"""


def lock_holder(**changes: Any) -> LockHolder:
    elsewhere = LockHolder(host="elsewhere", pid=1, incarnation="other", started=0, opaque_id="brokerage-run-7-other")
    return msgspec.structs.replace(elsewhere, **changes)


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def lock_store(bench: Bench, name: str = "run") -> LockStore:
    return LockStore(bench.client, bench.connection.control_index, name)


async def hold(bench: Bench, by: LockHolder, token: int = 7) -> None:
    """Write the lock, or a heartbeat, of another run."""
    await ensure_index(bench.client, bench.connection.control_index, CONTROL_BODY)
    await lock_store(bench).write(LockState(token, by), await lock_store(bench).read())


async def lock_state(bench: Bench, name: str = "run") -> LockState:
    found = await lock_store(bench, name).read()
    assert found is not None
    return found.state


async def token(bench: Bench) -> int:
    """Hold the lock briefly and return its token."""
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=0) as lock:
        return lock.token


@pytest.fixture
async def killed(bench: Bench) -> tuple[int, str]:
    """Token and X-Opaque-Id of another process of this host that was killed while it held the lock."""
    arguments = (sys.executable, "-c", HOLD, bench.connection.url[0], bench.connection.control_index)
    process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    number, mark = (await process.stdout.readline()).decode().split()
    with pytest.raises(LockedError, match=f"Process {process.pid} on {socket.gethostname()} has held the lock since"):
        await token(bench)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    return int(number), mark


async def test_a_second_run_reports_the_holder_and_its_start(bench: Bench) -> None:
    await hold(bench, lock_holder(started=1_767_323_045_678))
    with pytest.raises(LockedError, match=r"Process 1 on elsewhere has held the lock since 2026-01-02T03:04:05"):
        await bench.build({TEAM: [envelope(TEAM)]})
    assert await bench.indices() == []
    assert (await lock_state(bench)).holder is not None


async def test_two_runs_of_one_process_exclude_each_other_too(bench: Bench) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index):
        with pytest.raises(LockedError, match=f"Process {os.getpid()}"):
            await bench.build({})
    assert (await bench.build({})).exit_code == 0


async def test_the_lock_of_a_killed_process_of_this_host_is_taken_over_at_once(
    bench: Bench, killed: tuple[int, str]
) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=0) as lock:
        assert (lock.token, lock.taken_over_from) == (killed[0] + 1, killed[1])
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=0) as lock:
        assert (lock.token, lock.taken_over_from) == (killed[0] + 2, None)


@pytest.mark.parametrize(
    "gone",
    [
        lock_holder(host=socket.gethostname(), pid=dead_process()),
        lock_holder(host=socket.gethostname(), pid=os.getpid(), incarnation="before the restart"),
    ],
    ids=["dead process of this host", "same number before a restart"],
)
async def test_the_lock_of_a_dead_holder_is_taken_over_and_released(bench: Bench, gone: LockHolder) -> None:
    await hold(bench, gone)
    assert (await bench.build({})).exit_code == 0
    assert await lock_state(bench) == LockState(8, None)


async def test_a_living_process_of_this_host_keeps_its_lock(bench: Bench) -> None:
    await hold(bench, lock_holder(host=socket.gethostname(), pid=os.getppid()))
    with pytest.raises(LockedError):
        await bench.build({})


async def test_a_late_heartbeat_does_not_keep_a_lock_from_being_released(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, late = LockStore.read, list[None]()

    async def read_before_a_heartbeat(store: LockStore) -> Any:
        known = await read(store)
        if known is not None and not late:
            late.append(None)  # it was cancelled on this side, and arrives after this read
            await store.write(known.state, known)
        return known

    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=0):
        monkeypatch.setattr(LockStore, "read", read_before_a_heartbeat)
    assert late
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=0) as lock:
        assert lock.taken_over_from is None


async def test_tokens_rise_over_release_takeover_and_failure(bench: Bench) -> None:
    first = await token(bench)
    with pytest.raises(ZeroDivisionError):
        async with acquire_lock(bench.client, bench.connection.control_index) as failing:
            raise ZeroDivisionError
    await hold(bench, lock_holder(host=socket.gethostname(), pid=dead_process()), token=failing.token + 1)
    assert (first, failing.token, await token(bench), await token(bench)) == (1, 2, 4, 5)


async def test_locks_of_different_names_are_independent(bench: Bench) -> None:
    index = bench.connection.control_index
    async with acquire_lock(bench.client, index, "one", wait_seconds=0) as one:
        async with acquire_lock(bench.client, index, "two", wait_seconds=0) as two:
            assert (one.token, two.token) == (1, 1)
            assert one.opaque_id.startswith("brokerage-one-1-")
            assert two.opaque_id.startswith("brokerage-two-1-")
        await one.verify()
    assert (await lock_state(bench, "one")).holder is (await lock_state(bench, "two")).holder is None


async def test_a_run_that_lost_its_lock_swaps_nothing_and_leaves_the_new_holder_alone(bench: Bench) -> None:
    usurping: list[asyncio.Task[None]] = []

    def on_progress(_report: Any) -> None:
        if not usurping:
            usurping.append(asyncio.create_task(hold(bench, lock_holder())))

    with pytest.raises(LockedError, match="The lock was lost"):
        await bench.build({}, on_progress=on_progress)
    await usurping[0]
    assert not await bench.client.indices.exists_alias(name=bench.connection.alias(COMPANY))
    assert await lock_state(bench) == LockState(7, lock_holder())


async def test_a_run_that_lost_its_lock_before_it_made_its_fence_writes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = bench.client.transport.perform_request

    async def suspended(method: str, target: str, **given: Any) -> Any:
        if target.startswith("/_aliases"):
            monkeypatch.undo()
            await hold(bench, lock_holder())
        return await send(method, target, **given)

    monkeypatch.setattr(bench.client.transport, "perform_request", suspended)
    with pytest.raises(LockedError, match="The lock was lost"):
        await bench.build({})
    await bench.client.indices.refresh(index=f"{bench.connection.prefix}*")
    (candidate,) = await bench.indices()
    found = await bench.client.count(index=f"{bench.connection.prefix}{candidate}")
    assert (candidate, found["count"]) == ("companies-v0001", 0)


async def test_a_lost_connection_while_aliases_are_read_does_not_end_the_fence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: dict[str, Any]) -> None:
        raise ConnectionError("lost")

    index, faulty = await created_index(bench, "candidate"), FaultyResponses(bench.client, monkeypatch)
    faulty.change(f"/_alias/{index}-builder-*", lost)
    fence = await create_fence(bench.engine(), f"{index}-builder", 5, index)
    assert (faulty.seen, bool(await bench.client.indices.exists_alias(name=fence))) == (2, True)


async def test_a_blocked_control_index_is_named_with_what_to_do(bench: Bench) -> None:
    control = bench.connection.control_index
    async with acquire_lock(bench.client, control):
        pass
    # Unlike that of full disks, Elasticsearch does not remove this block by itself.
    await bench.client.indices.put_settings(index=control, settings={"index.blocks.write": True})
    reason = rf"rejects writes: index \[{control}\] blocked by.*\. Free disk space or remove the block"
    with pytest.raises(ElasticsearchError, match=reason), translate_client_errors():
        async with acquire_lock(bench.client, control):
            pass
