"""One piece of work for all who ask the same at once: shared outcomes, and cancellation of some or all of them."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest

from service.flights import Flights


@dataclass
class Work:
    """Counts how often it is begun and given up; closed it holds back, with a fault it fails."""

    begun: int = 0
    given_up: int = 0
    fault: Exception | None = None
    fault_when_given_up: Exception | None = None
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def do(self) -> int:
        """Return how often it was begun."""
        self.begun += 1
        number = self.begun
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            if self.fault_when_given_up is not None:
                raise self.fault_when_given_up from None
            raise
        if self.fault is not None:
            raise self.fault
        return number


@pytest.fixture
def work() -> Work:
    """Work that is held back."""
    return Work()


@pytest.fixture
def flights() -> Flights[int]:
    """Nothing under way."""
    return Flights(Mock(), oldest=60.0)


@pytest.fixture
async def complaints() -> Any:
    """What the event loop complains of, such as failures that nobody has heard of."""
    loop, told = asyncio.get_running_loop(), list[str]()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    yield _told(told)
    loop.set_exception_handler(before)


def _told(told: list[str]) -> Any:
    def collect() -> list[str]:
        gc.collect()
        return told

    return collect


async def settle() -> None:
    """Let what runs in the background go on as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


def begin(flights: Flights[int], work: Work, *keys: object) -> list[asyncio.Task[int]]:
    """Ask for each key at once."""
    return [asyncio.create_task(flights.join(key, work.do)) for key in keys]


async def test_who_asks_the_same_at_once_shares_one_answer(flights: Flights[int], work: Work) -> None:
    asking = begin(flights, work, *["same"] * 20)
    await settle()
    work.open.set()
    assert await asyncio.gather(*asking) == [1] * 20
    assert work.begun == 1


async def test_who_asks_something_else_has_an_answer_of_its_own(flights: Flights[int], work: Work) -> None:
    asking = begin(flights, work, "a", "b", ("a", None), "a")
    await settle()
    work.open.set()
    assert await asyncio.gather(*asking) == [1, 2, 3, 1]


async def test_who_comes_later_asks_anew(flights: Flights[int], work: Work) -> None:
    work.open.set()
    assert [await flights.join("same", work.do) for _ in range(3)] == [1, 2, 3]
    assert flights._flights == {}


async def test_a_failure_reaches_all_and_is_not_kept(flights: Flights[int], work: Work, complaints: Any) -> None:
    work.fault = ValueError("scripted")
    asking = begin(flights, work, *["same"] * 5)
    await settle()
    work.open.set()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert outcomes == [work.fault] * 5
    work.fault = None
    assert await flights.join("same", work.do) == 2
    del asking, outcomes
    assert complaints() == []


@pytest.mark.parametrize("leaving", [0, 1, 2])
async def test_who_is_cancelled_leaves_the_others_theirs(flights: Flights[int], work: Work, leaving: int) -> None:
    asking = begin(flights, work, *["same"] * 3)
    await settle()
    asking[leaving].cancel()
    await settle()
    assert asking[leaving].cancelled()
    work.open.set()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome == 1] == [1, 1]
    assert (work.begun, work.given_up) == (1, 0)


async def test_the_last_to_be_cancelled_ends_the_work(flights: Flights[int], work: Work, complaints: Any) -> None:
    asking = begin(flights, work, *["same"] * 3)
    await settle()
    for number, task in enumerate(asking, 1):
        task.cancel()
        await settle()
        assert work.given_up == (number == 3)
    assert flights._flights == {}
    del asking, task
    assert complaints() == []


async def test_who_comes_when_the_last_has_left_asks_anew(flights: Flights[int], work: Work) -> None:
    (leaving,) = begin(flights, work, "same")
    await settle()
    leaving.cancel()
    await asyncio.sleep(0)
    (coming,) = begin(flights, work, "same")
    await settle()
    work.open.set()
    assert await coming == 2
    assert (work.begun, work.given_up) == (2, 1)


async def test_a_failure_that_nobody_waits_for_is_no_complaint(
    flights: Flights[int], work: Work, complaints: Any
) -> None:
    # As when a time runs out in the moment in which the client leaves.
    work.fault_when_given_up = TimeoutError()
    asking = begin(flights, work, "same", "same")
    await settle()
    for task in asking:
        task.cancel()
    await settle()
    assert work.given_up == 1
    del asking, task
    await settle()
    assert complaints() == []


async def test_who_comes_late_does_not_join_what_is_too_old_for_it(flights: Flights[int], work: Work) -> None:
    early = begin(flights, work, "same")
    await settle()
    flights._flights["same"].begun -= 100
    late = begin(flights, work, "same", "same")
    await settle()
    work.open.set()
    assert await asyncio.gather(*early, *late) == [1, 2, 2]
    assert (work.begun, flights._flights) == (2, {})


async def test_when_the_leader_leaves_who_joined_goes_on(flights: Flights[int], work: Work) -> None:
    (leader,) = begin(flights, work, "same")
    await settle()
    joined = begin(flights, work, "same", "same")
    await settle()
    leader.cancel()
    await settle()
    (later,) = begin(flights, work, "same")
    await settle()
    work.open.set()
    assert await asyncio.gather(*joined, later) == [1] * 3
    assert (work.begun, work.given_up) == (1, 0)
