"""Open houses in 30 zones, on the nights when clocks change: out of our own API, through `replicate`, and out again."""

import datetime as dt
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mappings import COMPANY, LISTING
from mappings.listing import TIME_ZONE
from tests.conftest import open_installation
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import company
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench, make_bench
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient
from tests.records import envelope

# Of every kind: half and quarter hours, summer times of half an hour and of two hours, a winter time (Dublin), clocks
# that change at midnight or before it, and zones without any change; both sides of the date line.
_ZONES = (
    *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Anchorage"),
    *("America/Phoenix", "Pacific/Honolulu", "America/St_Johns", "America/Halifax", "America/Havana"),
    *("America/Puerto_Rico", "America/Santiago", "America/Nuuk", "Atlantic/Azores", "Europe/London"),
    *("Europe/Dublin", "Europe/Berlin", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut"),
    *("Asia/Jerusalem", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "Australia/Sydney"),
    *("Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati"),
)
_WITHOUT_A_CHANGE = [dt.date(2026, 3, 8), dt.date(2026, 11, 1)]
_TIMES: list[tuple[dt.time | None, dt.time | None]] = [
    # Every half hour of the night, each until the next one.
    *((dt.time(half // 2, half % 2 * 30), dt.time((half + 1) // 2, (half + 1) % 2 * 30)) for half in range(10)),
    *((dt.time(0, 30), dt.time(4)), (dt.time(10), dt.time(12, 30)), (dt.time(22), dt.time(1, 15))),
    *((dt.time(23, 30), dt.time(23, 15)), (dt.time(23), None), (None, dt.time(9))),
]
# Where 1:15 comes twice, this ends with the second.
_UNTIL_THE_SECOND = (dt.time(1, 45), dt.time(1, 15))
# The start, or the day of an open house without one, and the end.
When = tuple[dt.datetime | str, dt.datetime | None]


async def test_every_open_house_comes_back_at_the_same_instant(bench: Bench, tmp_path: Path, engine_url: str) -> None:
    expected = {name: Counter(_expected(ZoneInfo(name))) for name in _ZONES}
    async with open_installation(engine_url) as (client, connection):
        market = make_bench(client, connection, tmp_path / "market", 1)
        lines = [_listing(name) for name in _ZONES]
        assert (await market.build({COMPANY: [company("a")], LISTING: lines})).exit_code == 0
        async with _served(market) as source:
            assert await _open_houses(source) == expected
            (map_file := tmp_path / "map.toml").write_text('[company]\nplatform_company_id = "a"\nname = "A"\n')
            settings = {"RATE": "1000", "TOKEN": source.keys["a"], "DIR": str(tmp_path / "replicas")}
            code, out, err = await run(
                bench,
                *("replicate", str(source.root), "--company", "a", "--map", map_file, "--json"),
                **{f"BROKERAGE_RESO_{name}": value for name, value in settings.items()},
            )
            assert code == 0, err
            assert "time zone" not in out + err
    async with _served(bench) as copy:
        assert await _open_houses(copy) == expected


@asynccontextmanager
async def _served(bench: Bench) -> AsyncIterator[ODataClient]:
    async with serve_feed(bench) as feed:
        yield ODataClient(feed.http.session, str(feed.http.make_url("")), feed.keys)


async def _open_houses(client: ODataClient) -> dict[str, Counter[When]]:
    """Return when the open houses are, by the zone of their listing."""
    zones = {
        row["ListingKey"]: row["PropertyTimeZoneName"]
        for row in await client.walk("Property", "a", select="ListingKey,PropertyTimeZoneName")
    }
    assert len(zones) == len(_ZONES) == 30
    found: dict[str, Counter[When]] = {name: Counter() for name in _ZONES}
    for row in await client.walk("OpenHouse", "a", MAX_PAGE_SIZE_PREFERENCE):
        start, end = (
            text and dt.datetime.fromisoformat(text) for text in (row["OpenHouseStartTime"], row["OpenHouseEndTime"])
        )
        zone = ZoneInfo(zones[row["ListingKey"]])
        assert all(at.utcoffset() == at.astimezone(zone).utcoffset() for at in (start, end) if at)
        found[zone.key][start or row["OpenHouseDate"], end] += 1
    return found


def _listing(zone: str) -> dict[str, Any]:
    houses = [
        {"Date": day.isoformat(), "StartTime": start and start.isoformat(), "EndTime": end and end.isoformat()}
        for day, start, end in _open(ZoneInfo(zone))
    ]
    record = {"PlatformListingId": zone.replace("/", "-"), "OpenHouse": houses}
    return envelope(LISTING, record, platform_company_id="a", **{TIME_ZONE: zone})


def _open(zone: ZoneInfo) -> Iterator[tuple[dt.date, dt.time | None, dt.time | None]]:
    """Yield days and local times: of those days of 2026 on which clocks change, and of those before."""
    hours = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour) for hour in range(365 * 24)]
    offsets = [(hour.astimezone(zone).date(), hour.astimezone(zone).utcoffset()) for hour in hours]
    changes = [day for (_, before), (day, after) in pairwise(offsets) if before != after]
    for day in changes or _WITHOUT_A_CHANGE:
        yield day, *_UNTIL_THE_SECOND
        for near in (day - dt.timedelta(days=1), day):
            yield from ((near, start, end) for start, end in _TIMES)


def _expected(zone: ZoneInfo) -> Iterator[When]:
    """Yield when the open houses are, by the definition of it."""
    for day, start_time, end_time in _open(zone):
        start = None if start_time is None else _instants(zone, day, start_time)[0]
        days = () if end_time is None else (day, day + dt.timedelta(days=1))
        ends = [at for one in days if end_time is not None for at in _instants(zone, one, end_time)]
        if start and start_time and end_time and start_time < end_time:
            # A start that clocks skip may be after an end that they do not skip.
            ends = [max(start, ends[0])]
        yield start or day.isoformat(), next((at for at in ends if not start or start <= at), None)


def _instants(zone: ZoneInfo, day: dt.date, time: dt.time) -> list[dt.datetime]:
    """Return when it is this local time; if it is never, when it would be by the clock of before."""
    local = dt.datetime.combine(day, time)
    offsets = [(local.replace(tzinfo=dt.UTC) + dt.timedelta(hours=at)).astimezone(zone).utcoffset() for at in (-36, 36)]
    times = sorted({(local - offset).replace(tzinfo=dt.UTC) for offset in offsets if offset is not None})
    shown = [at for at in times if at.astimezone(zone).replace(tzinfo=None) == local]
    return shown or [(local - (offsets[0] or dt.timedelta())).replace(tzinfo=dt.UTC)]
