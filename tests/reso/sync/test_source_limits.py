"""The limits of a source: in any second, hour and day, by requests and bytes, and after a restart."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from indexer.reso.client.limits import LimitWindow, RequestWindows, SourceLimits
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mirror import Mirror, RequestCounts
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import STANDARD
from tests.internals import Internals
from tests.reso.clock import Clock
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import Dialect, RequestLimit, ServerFault, ServerSettings
from tests.reso.sync.open_mirror import DICTIONARY
from tests.reso.sync.test_reso_client import PROPERTIES

Counted = Callable[[SourceLimits], RequestWindows]

_HOUR, _DAY = 3600, 86_400


@pytest.fixture
def clock(internals: Internals) -> Clock:
    internals(odata_limits_time=(stopped := Clock()))
    return stopped


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """Return what gives the windows of another run with the same mirror."""
    with ExitStack() as stack:

        def opened(limits: SourceLimits) -> RequestWindows:
            mirror = stack.enter_context(closing(Mirror(tmp_path / "mirror.sqlite", DICTIONARY)))
            return RequestWindows(limits.windows(), RequestCounts(mirror))

        yield opened


def send(windows: RequestWindows, requests: int, size: int = 0) -> None:
    for _ in range(requests):
        assert windows.wait_seconds() == (0.0, None)
        windows.begin()
        windows.end(size)


def test_a_run_that_starts_just_after_another_waits_a_second(counted: Counted, clock: Clock) -> None:
    limits = SourceLimits(requests_per_second=2, requests_per_hour=100)
    send(counted(limits), 2)
    clock.now += 0.5
    restarted = counted(limits)
    assert restarted.wait_seconds()[0] == 1.0
    clock.now += 1.0
    send(restarted, 2)


@pytest.mark.parametrize("slow_seconds", [0.0, 0.3])
async def test_no_second_has_more_requests_than_the_source_allows(slow_seconds: float) -> None:
    """Also where responses take long, so that requests arrive closer together than they were sent."""
    settings = ServerSettings(
        dialect=Dialect(limits=(RequestLimit(1.0, requests=2),)),
        faults={ServerFault.SLOW: 0.5},
        slow_seconds=slow_seconds,
        most_faults_in_a_row=10**6,
    )
    dialect = replace(STANDARD, limits=SourceLimits(requests_per_second=2))
    async with serve_in_loop(settings) as server:
        web = ResoClient(server.url, ResoSettings(rate=1000.0), print, dialect)
        await web.open()
        await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(7)))
        await web.close()
        assert (server.violations, len(server.ledger.visits)) == (0, 7)


@pytest.mark.parametrize(
    ("limits", "seconds", "size"),
    [
        (SourceLimits(requests_per_minute=5), 60, 0),
        (SourceLimits(requests_per_hour=5), _HOUR, 0),
        (SourceLimits(requests_per_day=5), _DAY, 0),
        (SourceLimits(mib_per_hour=5), _HOUR, 1024**2),
    ],
)
def test_a_limit_holds_requests_back_and_survives_a_restart(
    counted: Counted, clock: Clock, limits: SourceLimits, seconds: int, size: int
) -> None:
    send(counted(limits), 2, size)
    clock.now += seconds / 2
    send(counted(limits), 3, size)
    windows = counted(limits)
    wait, limit = windows.wait_seconds()
    assert limit is not None
    # The first two leave the window then, at most one slot later.
    assert seconds / 2 <= wait <= seconds / 2 + 5
    clock.now += wait
    send(windows, 2, size)
    assert windows.wait_seconds()[0] > 0


def test_a_request_in_flight_counts_until_its_end_has_left_the_window(clock: Clock) -> None:
    windows = RequestWindows([LimitWindow("1 request per second", 1, requests=1)])
    windows.begin()
    clock.now += 10
    assert windows.wait_seconds()[0] > 0
    windows.end(0)
    assert windows.wait_seconds()[0] == pytest.approx(1.0)
    clock.now += 1.0
    assert windows.wait_seconds() == (0.0, None)


def test_requests_under_a_clock_that_was_ahead_hold_nothing_back(counted: Counted, clock: Clock) -> None:
    limits = SourceLimits(requests_per_day=3)
    clock.now += 30 * _DAY
    send(counted(limits), 3)
    clock.now -= 30 * _DAY
    assert counted(limits).wait_seconds() == (0.0, None)


def test_settings_replace_the_limits_of_a_profile() -> None:
    profile = SourceLimits(requests_per_second=2, requests_per_hour=7_200, requests_per_day=40_000, mib_per_hour=4096)
    assert profile.overridden(ResoSettings()) == profile
    given = ResoSettings(hourly_requests=100, daily_requests=200, hourly_mib=300)
    assert profile.overridden(given) == SourceLimits(
        requests_per_second=2, requests_per_hour=100, requests_per_day=200, mib_per_hour=300
    )
    assert list(SourceLimits().overridden(ResoSettings()).windows()) == []


@pytest.mark.parametrize("given", [{"requests_per_hour": -1}, {"requests_per_hours": 1}, {"mib_per_hour": "many"}])
def test_an_invalid_limit_of_a_map_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"requests_per_hour|mib_per_hour"):
        msgspec.convert(given, SourceLimits)


async def test_a_long_wait_is_reported_and_is_not_a_failure_of_the_source(
    monkeypatch: pytest.MonkeyPatch, internals: Internals
) -> None:
    """The time for which failed requests are repeated does not pass while a limit holds them back."""
    internals(odata_reported_seconds=0.2)
    monkeypatch.setattr(random, "uniform", lambda _low, _high: 0.0)
    said: list[str] = []
    settings = ResoSettings(rate=1000.0, in_flight=1, retry_seconds=3.0)
    async with serve_in_loop(ServerSettings(retry_after_seconds=0)) as server:
        web = ResoClient(
            server.url, settings, said.append, replace(STANDARD, limits=SourceLimits(requests_per_second=1))
        )
        await web.open()
        server.faults.plan(ServerFault.TOO_MANY, times=4)
        await web.fetch_page(PROPERTIES)
        await web.close()
    assert any(value.startswith("The limit of the source, 1 requests per second, is used up") for value in said)


async def test_all_requests_pause_after_a_429_that_does_not_say_how_long(internals: Internals) -> None:
    """As of a service that suspends readers until they ask less."""
    internals(odata_too_many_seconds=2.0)
    limited = Dialect(limits=(RequestLimit(1.0, requests=1),), says_retry_after=False)
    async with serve_in_loop(ServerSettings(dialect=limited)) as server:
        server.ledger.now = lambda: 10.0 * len(came) if server.violations else 0.0
        came: list[float] = []
        server.on_request = lambda _visit: came.append(time.monotonic())
        web = ResoClient(server.url, ResoSettings(rate=1000.0, in_flight=2), lambda _: None)
        await web.open()
        await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(6)))
        await web.close()
        assert server.violations == 1
    # The first, the one too many, and at most one that was in flight.
    assert sum(at < came[0] + 2.0 for at in came) <= 3
