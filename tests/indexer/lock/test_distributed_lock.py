"""One run at a time: a lock is kept by heartbeats, refused while its holder lives, and taken over when it is gone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from cluster.control_index import CONTROL_BODY, ensure_index
from indexer import ElasticsearchError, IndexerSettings, LockedError
from indexer import lock as lock_module
from indexer.errors import translate_client_errors
from indexer.lock import DistributedLock, LockHolder, LockState, LockStore, acquire_lock, create_fence
from mappings import COMPANY, TEAM
from tests.indexer.bulk_writes import created_index
from tests.indexer.client_requests import before, behind, lose
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.records import envelope
from tests.waiting import Hurry, until_true

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
READ, WRITE = "GET /_doc/lock-", "PUT /_doc/lock-"
HERE = socket.gethostname()


def lock_holder(**changes: Any) -> LockHolder:
    """Return a holder on another host."""
    elsewhere = LockHolder(host="elsewhere", pid=1, incarnation="other", started=0, opaque_id="brokerage-run-7-other")
    return msgspec.structs.replace(elsewhere, **changes)


def dead_process() -> int:
    """Return the id of a process that has ended."""
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


async def acquired(bench: Bench, seconds: float = 0, notices: list[str] | None = None) -> DistributedLock:
    """Wait for the lock, hold it briefly, and return it."""
    say = ([] if notices is None else notices).append
    async with acquire_lock(bench.client, bench.connection.control_index, wait_seconds=seconds, on_wait=say) as lock:
        return lock


def nothing() -> None:
    """Let a request be sent."""


@pytest.fixture
async def killed(bench: Bench) -> tuple[int, str]:
    """Token and X-Opaque-Id of another process of this host that was killed while it held the lock."""
    arguments = (sys.executable, "-c", HOLD, bench.connection.url[0], bench.connection.control_index)
    process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    number, mark = (await process.stdout.readline()).decode().split()
    with pytest.raises(LockedError, match=f"Process {process.pid} on {HERE} has held the lock since"):
        await acquired(bench)
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
    token, mark = killed
    for expected in ((token + 1, mark), (token + 2, None)):
        lock = await acquired(bench)
        assert (lock.token, lock.taken_over_from) == expected


@pytest.mark.parametrize(
    "gone",
    [
        lock_holder(host=HERE, pid=dead_process()),
        lock_holder(host=HERE, pid=os.getpid(), incarnation="before the restart"),
    ],
    ids=["dead process of this host", "same number before a restart"],
)
async def test_the_lock_of_a_dead_holder_is_taken_over_and_released(bench: Bench, gone: LockHolder) -> None:
    await hold(bench, gone)
    assert (await bench.build({})).exit_code == 0
    assert await lock_state(bench) == LockState(8, None)


@pytest.mark.parametrize(
    "living",
    [lock_holder(host=HERE, pid=os.getppid()), lock_holder(pid=dead_process())],
    ids=["of this host", "of another host, with a number that nothing has here"],
)
async def test_a_living_process_keeps_its_lock(bench: Bench, living: LockHolder) -> None:
    await hold(bench, living)
    with pytest.raises(LockedError):
        await bench.build({})


async def test_tokens_rise_over_release_takeover_and_failure(bench: Bench) -> None:
    first = (await acquired(bench)).token
    with pytest.raises(ZeroDivisionError):
        async with acquire_lock(bench.client, bench.connection.control_index) as failing:
            raise ZeroDivisionError
    await hold(bench, lock_holder(host=HERE, pid=dead_process()), token=failing.token + 1)
    after = [(await acquired(bench)).token for _ in range(2)]
    assert (first, failing.token, after) == (1, 2, [4, 5])


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


async def test_a_run_that_lost_its_lock_before_it_made_its_fence_writes_nothing(bench: Bench) -> None:
    with (
        before(bench.client, "POST /_aliases", lambda: hold(bench, lock_holder())),
        pytest.raises(LockedError, match="The lock was lost"),
    ):
        await bench.build({})
    await bench.client.indices.refresh(index=f"{bench.connection.prefix}*")
    (candidate,) = await bench.indices()
    found = await bench.client.count(index=f"{bench.connection.prefix}{candidate}")
    assert (candidate, found["count"]) == ("companies-v0001", 0)


async def test_a_lost_connection_while_aliases_are_read_does_not_end_the_fence(bench: Bench) -> None:
    index = await created_index(bench, "candidate")
    with behind(bench.client, f"GET /_alias/{index}-builder-", lose) as seen:
        fence = await create_fence(bench.engine(), f"{index}-builder", 5, index)
    assert (seen.count, bool(await bench.client.indices.exists_alias(name=fence))) == (2, True)


async def test_a_blocked_control_index_is_named_with_what_to_do(bench: Bench) -> None:
    control = bench.connection.control_index
    await acquired(bench)
    # Unlike that of full disks, Elasticsearch does not remove this block by itself.
    await bench.client.indices.put_settings(index=control, settings={"index.blocks.write": True})
    reason = rf"rejects writes: index \[{control}\] blocked by.*\. Free disk space or remove the block"
    with pytest.raises(ElasticsearchError, match=reason), translate_client_errors():
        await acquired(bench)


async def test_heartbeats_continue_while_the_lock_is_held(bench: Bench, internals: Internals) -> None:
    internals(lock_heartbeat_seconds=0.02)
    async with acquire_lock(bench.client, bench.connection.control_index):
        latest = first = await lock_store(bench).read()
        while latest == first:
            await asyncio.sleep(0.02)
            latest = await lock_store(bench).read()
    assert first is not None
    assert latest is not None
    assert latest.state == first.state
    assert latest.seq_no > first.seq_no


@pytest.mark.parametrize("where", [before, behind])
async def test_a_lost_connection_ends_no_run_that_verifies_its_lock(bench: Bench, where: Any) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        with where(bench.client, WRITE, lose) as seen:
            await lock.verify()
        await lock.verify()
    assert seen.count == 2
    assert await lock_state(bench) == LockState(1, None)


async def test_a_heartbeat_that_hangs_is_abandoned_for_the_next(bench: Bench, internals: Internals) -> None:
    internals(lock_heartbeat_seconds=0.02, lock_heartbeat_timeout_seconds=0.5)
    enough = asyncio.Event()
    with before(bench.client, WRITE, nothing, asyncio.Event().wait, nothing, enough.set):
        async with acquire_lock(bench.client, bench.connection.control_index):
            await enough.wait()


async def test_a_heartbeat_that_arrives_late_does_not_keep_the_lock(bench: Bench) -> None:
    """It was cancelled on this side, and arrives after the lock was read and before it is released."""

    async def beat(_: object) -> None:
        await lock_store(bench).write(await lock_state(bench), await lock_store(bench).read())

    with behind(bench.client, READ, lambda _: None, beat):
        await acquired(bench)
    assert await lock_state(bench) == LockState(1, None)


async def test_a_run_that_is_stopped_while_it_gives_its_lock_back_is_stopped(
    bench: Bench, internals: Internals
) -> None:
    is_beating, is_ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    internals(lock_heartbeat_seconds=0.0)

    async def slow() -> None:
        is_beating.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_ending.set()
            await may_end.wait()

    async def run() -> None:
        async with acquire_lock(bench.client, bench.connection.control_index):
            await is_beating.wait()

    with before(bench.client, WRITE, nothing, slow):
        running = asyncio.create_task(run())
        await is_ending.wait()
        running.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert await lock_state(bench) == LockState(1, None)


def test_the_default_wait_is_long_enough_to_take_over_a_silent_holder() -> None:
    assert IndexerSettings().lock_wait_seconds >= lock_module.HOLDER_TIMEOUT_SECONDS
    assert lock_module.HOLDER_TIMEOUT_SECONDS > 3 * lock_module.HEARTBEAT_SECONDS


async def test_a_wait_of_zero_seconds_refuses_at_the_first_poll(bench: Bench) -> None:
    await hold(bench, lock_holder())
    notices: list[str] = []
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await acquired(bench, 0, notices)
    assert notices == []


async def test_a_silent_foreign_holder_is_taken_over_by_a_wait_of_just_its_silence(
    bench: Bench, internals: Internals
) -> None:
    internals(lock_holder_timeout_seconds=60.0)
    await hold(bench, lock_holder())
    with pytest.raises(LockedError, match="Process 1 on elsewhere"):
        await acquired(bench, 0.2)
    internals(lock_holder_timeout_seconds=1.0)
    notices: list[str] = []
    taken = await acquired(bench, 1.0, notices)
    assert (taken.token, taken.taken_over_from) == (8, "brokerage-run-7-other")
    assert notices == [
        "Process 1 on elsewhere has held the lock since 1970-01-01T00:00:00+00:00: waiting up to 1 s more."
    ]


async def test_a_foreign_holder_with_heartbeats_is_not_taken_over(bench: Bench, internals: Internals) -> None:
    await hold(bench, lock_holder())
    # So much of the time goes by between two looks at the clock.
    internals(
        lock_holder_timeout_seconds=0.5, lock_poll_seconds=0.0, lock_notice_interval_seconds=1.0, lock_time=Hurry(0.05)
    )
    notices: list[str] = []
    beats = [lambda: hold(bench, lock_holder())] * 1_000
    with (
        before(bench.client, READ, *beats) as polls,
        pytest.raises(LockedError, match="Process 1 on elsewhere has held the lock since 1970"),
    ):
        await acquired(bench, 3.0, notices)
    assert len(notices) == 3
    assert polls.count > len(notices)
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


async def test_each_of_many_waiting_runs_gets_the_lock_once(bench: Bench, internals: Internals) -> None:
    internals(lock_poll_seconds=0.02)
    locks = await asyncio.gather(*(acquired(bench, 60) for _ in range(5)))
    assert sorted(lock.token for lock in locks) == [1, 2, 3, 4, 5]


async def test_a_holder_sees_the_request_of_a_waiting_run_while_it_lasts(bench: Bench, internals: Internals) -> None:
    # A waiting run renews its request each second: on a busy machine that takes longer than a request lasts.
    internals(lock_time=Hurry(0.0))
    assert internals.present("lock_request_ttl_seconds") > 2 * internals.present("lock_poll_seconds")
    requests: list[int | None] = [None]

    async def is_renewed() -> bool:
        requests.append(await lock_store(bench).request_version())
        return requests[-1] != requests[-2]

    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        assert not await lock.is_requested()
        waiter = asyncio.create_task(acquired(bench, 60))
        for _ in range(4):
            await until_true(is_renewed)
            assert await lock.is_requested()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not await lock.is_requested()


async def test_the_request_of_a_killed_waiter_expires(bench: Bench, internals: Internals) -> None:
    async with acquire_lock(bench.client, bench.connection.control_index) as lock:
        await lock_store(bench).request()
        assert await lock.is_requested()
        internals(lock_request_ttl_seconds=0.0)
        assert not await lock.is_requested()
