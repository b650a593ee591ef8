"""Request coalescing: shared outcomes, and cancellation of some or all requests."""

import asyncio
import gc
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest

from service.search.engine import SingleFlight


@dataclass
class Work:
    """Counts its starts and cancellations; closed it blocks, with a fault it fails."""

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
    """Blocked work."""
    return Work()


@pytest.fixture
def flights() -> SingleFlight[int]:
    """A single flight without tasks."""
    return SingleFlight(Mock(), max_age=60.0)


@pytest.fixture
async def complaints() -> Any:
    """The errors that the event loop reports, such as exceptions that were never retrieved."""
    loop, messages = asyncio.get_running_loop(), list[str]()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: messages.append(context["message"]))
    yield _read_messages(messages)
    loop.set_exception_handler(before)


def _read_messages(messages: list[str]) -> Any:
    def collect() -> list[str]:
        gc.collect()
        return messages

    return collect


async def settle() -> None:
    """Let background tasks run as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


def begin(flights: SingleFlight[int], work: Work, *keys: object) -> list[asyncio.Task[int]]:
    """Request all keys at once."""
    return [asyncio.create_task(flights.run(key, work.do)) for key in keys]


async def test_concurrent_requests_with_a_key_share_a_result(flights: SingleFlight[int], work: Work) -> None:
    asking = begin(flights, work, *["same"] * 20)
    await settle()
    work.open.set()
    assert await asyncio.gather(*asking) == [1] * 20
    assert work.begun == 1


async def test_other_keys_have_their_own_result(flights: SingleFlight[int], work: Work) -> None:
    asking = begin(flights, work, "a", "b", ("a", None), "a")
    await settle()
    work.open.set()
    assert await asyncio.gather(*asking) == [1, 2, 3, 1]


async def test_a_later_request_starts_again(flights: SingleFlight[int], work: Work) -> None:
    work.open.set()
    assert [await flights.run("same", work.do) for _ in range(3)] == [1, 2, 3]


async def test_a_failure_reaches_all_and_is_not_kept(flights: SingleFlight[int], work: Work, complaints: Any) -> None:
    work.fault = ValueError("scripted")
    asking = begin(flights, work, *["same"] * 5)
    await settle()
    work.open.set()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert outcomes == [work.fault] * 5
    work.fault = None
    assert await flights.run("same", work.do) == 2
    del asking, outcomes
    assert complaints() == []


@pytest.mark.parametrize("leaving", [0, 1, 2])
async def test_a_cancelled_request_leaves_the_others_their_result(
    flights: SingleFlight[int], work: Work, leaving: int
) -> None:
    asking = begin(flights, work, *["same"] * 3)
    await settle()
    asking[leaving].cancel()
    await settle()
    assert asking[leaving].cancelled()
    work.open.set()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome == 1] == [1, 1]
    assert (work.begun, work.given_up) == (1, 0)


async def test_the_last_to_be_cancelled_ends_the_work(flights: SingleFlight[int], work: Work, complaints: Any) -> None:
    asking = begin(flights, work, *["same"] * 3)
    await settle()
    for number, task in enumerate(asking, 1):
        task.cancel()
        await settle()
        assert work.given_up == (number == 3)
    del asking, task
    assert complaints() == []


async def test_a_request_after_the_last_cancellation_starts_again(flights: SingleFlight[int], work: Work) -> None:
    (leaving,) = begin(flights, work, "same")
    await settle()
    leaving.cancel()
    await asyncio.sleep(0)
    (coming,) = begin(flights, work, "same")
    await settle()
    work.open.set()
    assert await coming == 2
    assert (work.begun, work.given_up) == (2, 1)


async def test_a_failure_without_waiters_is_not_reported(
    flights: SingleFlight[int], work: Work, complaints: Any
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


async def test_a_request_does_not_join_a_task_that_is_too_old(work: Work) -> None:
    flights = SingleFlight[int](Mock(), max_age=0.0)
    early = begin(flights, work, "same")
    await asyncio.sleep(0.01)
    late = begin(flights, work, "same")
    await settle()
    work.open.set()
    assert await asyncio.gather(*early, *late) == [1, 2]
    assert await flights.run("same", work.do) == 3


async def test_a_task_outlives_the_request_that_started_it(flights: SingleFlight[int], work: Work) -> None:
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
