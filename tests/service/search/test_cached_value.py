"""Cached values: refreshed in the background, awaited when stale, kept during an outage, shared between requests."""

import asyncio
from dataclasses import dataclass, field

import pytest

from service.errors import EngineUnavailable
from service.search.cached_value import CacheAges, CachedValue
from tests.internals import Clock, Internals

FRESH, STALE = 2.0, 4.0


@dataclass
class Source:
    """Counts its reads; closed it blocks them, unavailable it fails them."""

    reads: int = 0
    away: bool = False
    error: Exception = field(default_factory=lambda: EngineUnavailable("scripted"))
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    async def load(self) -> int:
        """Return how often it was read."""
        self.reads += 1
        read = self.reads
        await self.open.wait()
        if self.away:
            raise self.error
        return read


@pytest.fixture
def clock(internals: Internals) -> Clock:
    """The clock that ages are measured by."""
    clock = Clock(now=1000.0)
    internals(cache_time=clock)
    return clock


@pytest.fixture
def source() -> Source:
    """The source of the value."""
    return Source()


@pytest.fixture
def kept(source: Source, clock: Clock) -> CachedValue[int]:
    """A value not yet read."""
    assert clock.now > 0
    return CachedValue(source.load, CacheAges(FRESH, STALE))


async def settle() -> None:
    """Let background tasks run as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_is_read_before_the_first_use(kept: CachedValue[int], source: Source) -> None:
    await settle()
    assert source.reads == 0
    assert await kept.get() == 1


async def test_a_fresh_value_is_not_read_again(kept: CachedValue[int], source: Source, clock: Clock) -> None:
    await kept.get()
    clock.now += FRESH - 0.1
    assert [await kept.get(), await kept.get()] == [1, 1]
    await settle()
    assert source.reads == 1


async def test_an_ageing_value_is_answered_at_once_and_renewed_behind(
    kept: CachedValue[int], source: Source, clock: Clock
) -> None:
    await kept.get()
    clock.now += FRESH
    source.open.clear()
    async with asyncio.timeout(5):
        assert [await kept.get(), await kept.get()] == [1, 1]
    source.open.set()
    await settle()
    assert await kept.get() == 2
    assert source.reads == 2


async def test_a_stale_value_is_waited_for(kept: CachedValue[int], clock: Clock) -> None:
    await kept.get()
    clock.now += STALE
    assert await kept.get() == 2


async def test_a_value_counts_from_the_moment_its_reading_began(
    kept: CachedValue[int], source: Source, clock: Clock
) -> None:
    source.open.clear()
    first = asyncio.create_task(kept.get())
    await settle()
    clock.now += STALE  # what was read may be as old as that
    source.open.set()
    assert await first == 1
    assert await kept.get() == 2


async def test_an_outage_keeps_the_last_good_value(kept: CachedValue[int], source: Source, clock: Clock) -> None:
    await kept.get()
    source.away = True
    for _ in range(3):
        clock.now += STALE
        assert await kept.get() == 1
    assert source.reads == 4


@pytest.mark.parametrize("error", [KeyError("member"), TypeError("type"), ValueError("JSON"), AttributeError("null")])
async def test_a_response_that_makes_no_sense_is_an_outage(
    kept: CachedValue[int], source: Source, clock: Clock, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    source.away, source.error = True, error
    with pytest.raises(EngineUnavailable):
        await kept.get()
    source.away = False
    assert await kept.get() == 2
    clock.now += STALE
    source.away = True
    assert await kept.get() == 2
    await kept.refresh()
    assert caplog.text.count(f"could not be refreshed: {type(error).__name__}: {error}") == 2


async def test_the_end_of_an_outage_brings_the_new_value(kept: CachedValue[int], source: Source, clock: Clock) -> None:
    await kept.get()
    clock.now += STALE
    source.away = True
    await kept.get()
    source.away = False
    assert await kept.get() == 3


async def test_a_value_never_read_raises_until_it_can_be_read(kept: CachedValue[int], source: Source) -> None:
    source.away = True
    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            await kept.get()
    source.away = False
    assert await kept.get() == 3


async def test_concurrent_requests_share_one_reading(kept: CachedValue[int], source: Source, clock: Clock) -> None:
    assert await asyncio.gather(*(kept.get() for _ in range(20))) == [1] * 20
    clock.now += STALE
    assert await asyncio.gather(*(kept.get() for _ in range(20))) == [2] * 20
    assert source.reads == 2


async def test_concurrent_requests_share_one_failure(kept: CachedValue[int], source: Source) -> None:
    source.away = True
    outcomes = await asyncio.gather(*(kept.get() for _ in range(20)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {EngineUnavailable}
    assert source.reads == 1


async def test_a_request_that_is_given_up_does_not_end_the_renewal_of_others(
    kept: CachedValue[int], source: Source
) -> None:
    source.open.clear()
    impatient, patient = asyncio.create_task(kept.get()), asyncio.create_task(kept.get())
    await settle()
    impatient.cancel()
    await settle()
    assert impatient.cancelled()
    source.open.set()
    assert await patient == 1
    assert source.reads == 1


async def test_a_renewal_goes_on_when_everyone_has_given_up(kept: CachedValue[int], source: Source) -> None:
    source.open.clear()
    only = asyncio.create_task(kept.get())
    await settle()
    only.cancel()
    source.open.set()
    await settle()
    assert await kept.get() == 1


async def test_a_refresh_does_not_use_a_read_that_began_before_it(kept: CachedValue[int], source: Source) -> None:
    source.open.clear()
    earlier = asyncio.create_task(kept.get())
    await settle()
    renewals = [asyncio.create_task(kept.refresh()) for _ in range(20)]
    await settle()
    source.open.set()
    await asyncio.gather(earlier, *renewals)
    assert (kept.current, source.reads) == (2, 2)


async def test_a_settled_value_was_read_so_long_ago(source: Source, clock: Clock) -> None:
    kept = CachedValue(source.load, CacheAges(FRESH, STALE), settle_seconds=STALE)
    await kept.get()
    clock.now += STALE
    assert await kept.settled() == 1
    assert await kept.get() == 2
    clock.now += STALE - 0.1
    assert await kept.settled() == 1
    clock.now += 0.1
    assert (await kept.settled(), await kept.get()) == (2, 3)


async def test_superseded_reads_are_dropped(kept: CachedValue[int], source: Source, clock: Clock) -> None:
    settling = CachedValue(source.load, CacheAges(FRESH, STALE), settle_seconds=2.5 * STALE)
    for _ in range(20):
        clock.now += STALE
        await kept.get()
        await settling.get()
    # One more than is returned for `settled(everywhere=True)`.
    assert [len(value._reads) for value in (kept, settling)] == [2, 5]


async def test_the_first_settled_value_is_waited_for(source: Source) -> None:
    kept = CachedValue(source.load, CacheAges(FRESH, STALE), settle_seconds=0.2)
    begun = asyncio.get_running_loop().time()
    assert await kept.settled() == 1
    assert asyncio.get_running_loop().time() - begun >= 0.2


async def test_a_sleep_that_ends_early_is_repeated(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = CachedValue(source.load, CacheAges(FRESH, STALE), settle_seconds=0.2)
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(seconds / 2))  # as uvloop, by up to a millisecond
    assert await kept.settled() == 1


async def test_nothing_is_as_good_a_value_as_any(clock: Clock) -> None:
    reads = 0

    async def load() -> None:
        nonlocal reads
        reads += 1

    kept = CachedValue(load, CacheAges(FRESH, STALE))
    for _ in range(3):
        await kept.get()
    assert reads == 1
    assert clock.now == 1000.0
