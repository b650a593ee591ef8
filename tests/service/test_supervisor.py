"""What the supervisor decides, with workers that are none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cluster.connection import ConnectionSettings
from service import slot as slots
from service.listening import Listeners
from service.settings import ServiceSettings
from service.slot import NotReplaced, Plan, Slot
from service.supervisor import Supervisor
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from service.worker import Worker

_PLAN = Plan(ServiceSettings(), ConnectionSettings())


class Place:
    """Stands for a slot whose replacement ends when it is told to."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self.plan = _PLAN
        self.plans: list[Plan] = []
        self.may_end = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def replace(self, plan: Plan, _: float) -> None:
        """Take note."""
        self.plans.append(plan)
        await self.may_end.acquire()
        if self.error is not None:
            raise self.error


def _supervisor(*places: Any, read: Callable[[], Plan] = lambda: _PLAN) -> Supervisor:
    supervisor = Supervisor(read, [])
    supervisor._slots.extend(places)
    return supervisor


async def test_hangups_during_a_roll_ask_for_one_more_after_it() -> None:
    place = Place()
    supervisor = _supervisor(place)
    task = asyncio.create_task(supervisor._replace_when_told())
    supervisor._hangup.set()
    await until(lambda: len(place.plans) == 1)
    supervisor._hangup.set()
    supervisor._hangup.set()
    place.may_end.release()
    await until(lambda: len(place.plans) == 2)
    place.may_end.release()
    await asyncio.sleep(0.05)
    assert len(place.plans) == 2
    task.cancel()


async def test_a_worker_that_does_not_become_ready_ends_the_roll_but_not_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Place(), Place()
    first.error = NotReplaced("it was slow")
    supervisor = _supervisor(first, second)
    task = asyncio.create_task(supervisor._replace_when_told())
    first.may_end.release()
    supervisor._hangup.set()
    await until(lambda: "The workers that are there stay: it was slow" in caplog.text)
    assert second.plans == []
    first.error = None
    first.may_end.release()
    supervisor._hangup.set()
    await until(lambda: len(second.plans) == 1)
    task.cancel()


async def test_what_is_read_anew_reaches_the_workers_but_not_the_address() -> None:
    place = Place()
    other = Plan(ServiceSettings(port=1, workers=9, deadline_seconds=3), ConnectionSettings(prefix="new-"))
    task = asyncio.create_task((supervisor := _supervisor(place, read=lambda: other))._replace_when_told())
    supervisor._hangup.set()
    await until(lambda: place.plans)
    settings = place.plans[0].settings
    assert (settings.port, settings.workers, settings.deadline_seconds) == (8080, 1, 3)
    assert place.plans[0].connection.prefix == "new-"
    task.cancel()


async def test_pauses_grow_while_workers_die_early_and_end_when_one_has_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "Worker", lambda *_: object())
    slot, now = Slot(0, _PLAN, Listeners(())), asyncio.get_running_loop().time()
    young: Worker = SimpleNamespace(since=now)  # type: ignore[assignment]
    old: Worker = SimpleNamespace(since=now - 60)  # type: ignore[assignment]
    assert [slot._pause(young) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert [slot._pause(worker) for worker in (old, old, young, young)] == [0, 0, 0.5, 1]
