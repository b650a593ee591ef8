"""The limits halve on overload down to their minimum, and grow back slowly, never above the settings."""

import asyncio
from itertools import pairwise

import pytest

from indexer import IndexerSettings
from indexer.bulk import AdaptiveLimit

SETTINGS = IndexerSettings(bulk_documents=500, bulk_bytes=5_000_000, bulks_in_flight=8)


def limits(limit: AdaptiveLimit) -> tuple[int, int, int]:
    """Return documents, bytes and requests in flight."""
    return limit.documents, limit.bytes, limit.in_flight


async def overload(limit: AdaptiveLimit) -> None:
    async with limit.slot() as slot:
        pass
    limit.on_overload(slot)


async def test_it_starts_at_the_settings_and_halves_down_to_its_floors() -> None:
    limit = AdaptiveLimit(SETTINGS)
    seen = [limits(limit)]
    for _ in range(20):
        await overload(limit)
        seen.append(limits(limit))
    assert seen[:4] == [(500, 5_000_000, 8), (250, 2_500_000, 4), (125, 1_250_000, 2), (62, 625_000, 1)]
    assert seen[6] == (10, 100_000, 1)
    assert seen[-1] == (10, 100_000, 1)


async def test_settings_below_the_floors_are_kept() -> None:
    limit = AdaptiveLimit(IndexerSettings(bulk_documents=3, bulk_bytes=1_000, bulks_in_flight=1))
    await overload(limit)
    assert limits(limit) == (3, 1_000, 1)


async def test_it_grows_by_equal_steps_after_undisturbed_runs_only() -> None:
    limit = AdaptiveLimit(SETTINGS)
    await overload(limit)
    seen: list[tuple[int, int, int]] = []
    for number in range(1, 20 * 12 + 1):
        limit.on_success()
        if number % 20 == 19:
            assert limits(limit) == (seen[-1] if seen else (250, 2_500_000, 4))
        if number % 20 == 0:
            seen.append(limits(limit))
    documents = [250, *(limit[0] for limit in seen)]
    assert {later - earlier for earlier, later in pairwise(documents[:11])} == {24, 25}
    assert seen[9:] == [(499, 4_990_234, 7), (500, 5_000_000, 8), (500, 5_000_000, 8)]


async def test_an_overload_ends_the_undisturbed_run() -> None:
    limit = AdaptiveLimit(SETTINGS)
    for _ in range(3):
        for _ in range(19):
            limit.on_success()
        await overload(limit)
    assert limits(limit) == (62, 625_000, 1)


async def test_concurrent_requests_halve_the_limit_once() -> None:
    limit = AdaptiveLimit(SETTINGS)
    async with limit.slot() as first, limit.slot() as second:
        limit.on_overload(first)
        limit.on_overload(second)
        assert limit.documents == 250
        async with limit.slot() as third:
            limit.on_overload(third)
        assert limit.documents == 125


async def test_after_a_halving_no_request_starts_until_there_is_room() -> None:
    limit, started = AdaptiveLimit(IndexerSettings(bulks_in_flight=2)), asyncio.Event()

    async def third() -> None:
        async with limit.slot():
            started.set()

    async with limit.slot() as first:
        async with limit.slot():
            waiter = asyncio.create_task(third())
            limit.on_overload(first)
        await asyncio.sleep(0.05)
        assert not started.is_set()
    await asyncio.wait_for(waiter, 10)


async def test_one_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    limit = AdaptiveLimit(IndexerSettings(bulks_in_flight=1))
    for _ in range(3):
        async with asyncio.timeout(10), limit.slot():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), limit.slot():
                    pytest.fail("two at once")


def test_a_request_is_bounded_by_documents_and_bytes_and_never_empty() -> None:
    limit = AdaptiveLimit(IndexerSettings(bulk_documents=20, bulk_bytes=1_000))
    assert limit.fitting_count([40] * 30) == 20
    assert limit.fitting_count([40] * 5) == 5
    assert limit.fitting_count([100] * 30) == 10
    assert limit.fitting_count([101] * 30) == 9
    assert limit.fitting_count([5_000] * 2) == 1
