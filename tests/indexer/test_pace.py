"""The pace halves on overload down to its floors, and grows back slowly, never above the settings."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from indexer import IndexerSettings
from indexer.pace import Pace
from tests.indexer.sending import bulky

SETTINGS = IndexerSettings(bulk_documents=500, bulk_bytes=5_000_000, bulks_in_flight=8)


def limits(pace: Pace) -> tuple[int, int, int]:
    """Return documents, bytes and requests in flight."""
    return pace.documents, pace.bytes, pace.in_flight


async def overload(pace: Pace) -> None:
    """Meet an overload in a request of its own."""
    async with pace.slot() as slot:
        pass
    pace.overloaded(slot)


async def test_it_starts_at_the_settings_and_halves_down_to_its_floors() -> None:
    pace = Pace(SETTINGS)
    seen = [limits(pace)]
    for _ in range(20):
        await overload(pace)
        seen.append(limits(pace))
    assert seen[:4] == [(500, 5_000_000, 8), (250, 2_500_000, 4), (125, 1_250_000, 2), (62, 625_000, 1)]
    assert seen[6] == (10, 100_000, 1)
    assert seen[-1] == (10, 100_000, 1)


async def test_settings_below_the_floors_are_kept() -> None:
    pace = Pace(IndexerSettings(bulk_documents=3, bulk_bytes=1_000, bulks_in_flight=1))
    await overload(pace)
    assert limits(pace) == (3, 1_000, 1)


async def test_it_grows_by_equal_steps_after_undisturbed_runs_only() -> None:
    pace = Pace(SETTINGS)
    await overload(pace)
    seen: list[tuple[int, int, int]] = []
    for number in range(1, 20 * 12 + 1):
        pace.undisturbed()
        if number % 20 == 19:
            assert limits(pace) == (seen[-1] if seen else (250, 2_500_000, 4))
        if number % 20 == 0:
            seen.append(limits(pace))
    documents = [250, *(limit[0] for limit in seen)]
    assert {later - earlier for earlier, later in pairwise(documents[:11])} == {24, 25}
    assert seen[9:] == [(499, 4_990_234, 7), (500, 5_000_000, 8), (500, 5_000_000, 8)]


async def test_an_overload_ends_the_undisturbed_run() -> None:
    pace = Pace(SETTINGS)
    for _ in range(3):
        for _ in range(19):
            pace.undisturbed()
        await overload(pace)
    assert limits(pace) == (62, 625_000, 1)


async def test_requests_that_were_under_way_together_halve_once() -> None:
    pace = Pace(SETTINGS)
    async with pace.slot() as first, pace.slot() as second:
        pace.overloaded(first)
        pace.overloaded(second)
        assert pace.documents == 250
        async with pace.slot() as third:
            pace.overloaded(third)
        assert pace.documents == 125


async def test_after_a_halving_no_request_starts_until_there_is_room() -> None:
    pace, started = Pace(IndexerSettings(bulks_in_flight=2)), asyncio.Event()

    async def third() -> None:
        async with pace.slot():
            started.set()

    async with pace.slot() as first:
        async with pace.slot():
            waiter = asyncio.create_task(third())
            pace.overloaded(first)
        await asyncio.sleep(0.05)
        assert not started.is_set()
    await asyncio.wait_for(waiter, 10)


async def test_one_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    pace = Pace(IndexerSettings(bulks_in_flight=1))
    async with pace.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), pace.slot():
                pytest.fail("two at once")
    async with asyncio.timeout(10), pace.slot():
        assert pace._running == 1
    assert pace._running == 0


def test_a_request_is_bounded_by_documents_and_bytes_and_never_empty() -> None:
    pace = Pace(IndexerSettings(bulk_documents=20, bulk_bytes=1_000))
    assert pace.fitting(bulky(30, size=40)) == 20
    assert pace.fitting(bulky(5, size=40)) == 5
    assert pace.fitting(bulky(30, size=100)) == 10
    assert pace.fitting(bulky(30, size=101)) == 9
    assert pace.fitting(bulky(2, size=5_000)) == 1
