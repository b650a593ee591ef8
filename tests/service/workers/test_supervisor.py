"""Decisions of the supervisor, with fake workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

import service.workers.supervisor as slots
from cluster.connection import ConnectionSettings
from service.settings import ServiceSettings
from service.workers.supervisor import ReplacementFailed, Supervisor, WorkerPoolConfig, WorkerSlot
from service.workers.worker import ListenSockets, WorkerProcess
from tests.waiting import until

_CONFIG = WorkerPoolConfig(ServiceSettings(), ConnectionSettings())


class FakeSlot:
    """A slot whose replacements complete when the test releases them."""

    def __init__(self) -> None:
        self.config = _CONFIG
        self.configs: list[WorkerPoolConfig] = []
        self.may_end = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def replace(self, config: WorkerPoolConfig, _: float) -> None:
        """Record the call."""
        self.configs.append(config)
        await self.may_end.acquire()
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def _supervised(
    *slots: FakeSlot, read: Callable[[], WorkerPoolConfig] = lambda: _CONFIG
) -> AsyncIterator[Callable[[], None]]:
    """Let a supervisor replace the workers of slots; yield what tells it to, as SIGHUP does."""
    supervisor = Supervisor(read, [])
    supervisor._slots.extend(cast("list[WorkerSlot]", slots))
    task = asyncio.create_task(supervisor._replace_on_hangup())
    yield supervisor._hangup.set
    task.cancel()


async def test_hangups_during_a_roll_cause_one_more_roll() -> None:
    async with _supervised(slot := FakeSlot()) as hang_up:
        hang_up()
        await until(lambda: len(slot.configs) == 1)
        hang_up()
        hang_up()
        slot.may_end.release()
        await until(lambda: len(slot.configs) == 2)
        slot.may_end.release()
        await asyncio.sleep(0.05)
        assert len(slot.configs) == 2


async def test_a_worker_that_does_not_become_ready_ends_the_roll_but_not_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = FakeSlot(), FakeSlot()
    first.error = ReplacementFailed("it was slow")
    async with _supervised(first, second) as hang_up:
        first.may_end.release()
        hang_up()
        await until(lambda: "Rolling replacement stopped; the remaining old workers stay: it was slow" in caplog.text)
        assert second.configs == []
        first.error = None
        first.may_end.release()
        hang_up()
        await until(lambda: len(second.configs) == 1)


async def test_new_settings_reach_the_workers_except_the_address() -> None:
    other = WorkerPoolConfig(ServiceSettings(port=1, workers=9, deadline_seconds=3), ConnectionSettings(prefix="new-"))
    async with _supervised(slot := FakeSlot(), read=lambda: other) as hang_up:
        hang_up()
        await until(lambda: slot.configs)
    settings = slot.configs[0].settings
    assert (settings.port, settings.workers, settings.deadline_seconds) == (8080, 1, 3)
    assert slot.configs[0].connection.prefix == "new-"


async def test_backoff_grows_while_workers_die_early_and_resets_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "WorkerProcess", lambda *_: object())
    slot, now = WorkerSlot(0, _CONFIG, ListenSockets(())), asyncio.get_running_loop().time()
    young: WorkerProcess = SimpleNamespace(started_at=now)  # type: ignore[assignment]
    old: WorkerProcess = SimpleNamespace(started_at=now - 60)  # type: ignore[assignment]
    expected = [0.5, 1, 2, 4, 8, 16, 30, 30, 0, 0, 0.5, 1]
    assert [slot._backoff(worker) for worker in (*[young] * 8, old, old, young, young)] == expected
