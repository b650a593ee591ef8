"""What a run under a clock 400 days ahead has left is repaired by one command, and consumers lose nothing."""

import datetime as dt
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp.test_utils import TestClient, TestServer

from brokerage.doctor.cluster_checks import MARKS, RECORD_TIMES, time_findings
from indexer import repair_clock, rollback, status
from indexer.clock import is_ahead
from mappings import COMPANY, LISTING, TEAM
from service.app import create_app
from service.health.checks import Finding, FindingState
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import start, team
from tests.indexer.shifted_clock import YEAR_AND_MORE, shifted_clock
from tests.records import envelope
from tests.waiting import until_true

# A new epoch begins at the next whole second.
_TOLERATED_SECONDS = 60.0


def present() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000


async def found(bench: Bench) -> list[Finding]:
    marks = {bench.connection.alias(TEAM): await bench.mark(TEAM)}
    return await time_findings(bench.client, bench.connection, marks)


async def update_ahead(bench: Bench, *teams: dict[str, Any]) -> None:
    """Apply teams under a clock that is 400 days ahead, as a program did that did not compare clocks."""
    with shifted_clock(YEAR_AND_MORE):
        await bench.update({TEAM: teams}, clock_seconds=math.inf)


async def test_watermark_and_stamps_come_back_and_stay(bench: Bench) -> None:
    await start(bench, team("first", 0), team("first", 0, "u"))
    await start(bench, team("second", 1), team("first", 0, "u"))
    await update_ahead(bench, team("third", 2))
    ahead, before = await bench.mark(TEAM), await bench.served(TEAM)
    assert ahead.clock > present()
    repaired = await repair_clock(bench.engine(), TEAM)
    mark, after = await bench.mark(TEAM), await bench.served(TEAM)
    assert repaired is not None
    assert (repaired.before, repaired.after, repaired.documents) == (ahead.clock, mark.clock, 1)
    assert before["t"]["clock"] > mark.clock >= after["t"]["clock"]
    assert after["u"] == before["u"]
    assert (mark.sequence, mark.epoch, mark.void) == (ahead.sequence, ahead.epoch, ahead.clock)
    assert {key: one["sequence"] for key, one in after.items()} == {key: one["sequence"] for key, one in before.items()}
    await bench.update({TEAM: [team("fourth", 3)]})
    assert mark.clock < (await bench.mark(TEAM)).clock <= present()
    await start(bench, team("fifth", 4))
    assert (await bench.mark(TEAM)).clock <= present()
    await rollback(bench.engine(), TEAM)
    assert not is_ahead((await bench.mark(TEAM)).clock, _TOLERATED_SECONDS)
    assert await repair_clock(bench.engine(), TEAM) is None


async def test_the_generation_of_a_rollback_is_repaired_too(bench: Bench) -> None:
    await start(bench, team("first", 0), team("first", 0, "u"))
    await update_ahead(bench, team("second", 1))
    await start(bench, team("second", 1), team("third", 2, "u"))
    repaired = await repair_clock(bench.engine(), TEAM)
    assert repaired is not None
    assert repaired.documents == 3  # two of the live generation, one of the earlier one
    await rollback(bench.engine(), TEAM)
    assert not is_ahead((await bench.mark(TEAM)).clock, _TOLERATED_SECONDS)


async def test_a_second_wrong_run_sends_holders_of_the_first_watermark_back_to_the_first_repair(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await update_ahead(bench, team("second", 1))
    await repair_clock(bench.engine(), TEAM)
    first = await bench.mark(TEAM)
    await update_ahead(bench, team("third", 2))
    await repair_clock(bench.engine(), TEAM)
    second = await bench.mark(TEAM)
    assert second.repaired == first.repaired
    assert second.void > first.void
    assert second.clock_to_resume(first.void) == first.repaired


async def test_status_and_doctor_name_it_until_it_is_repaired(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await update_ahead(bench, team("second", 1))
    findings = {one.subject: one for one in await found(bench)}
    assert findings[MARKS].state is FindingState.WARNING
    ahead = dt.datetime.fromtimestamp((await bench.mark(TEAM)).clock // 1000, dt.UTC)
    assert findings[MARKS].detail == f"teams {ahead:%Y-%m-%d %H:%M} UTC."
    assert findings[MARKS].remedy == "Run `brokerage index repair-clock teams`."
    assert [one.resource for one in await status(bench.engine()) if one.is_mark_ahead] == ["teams"]
    assert "brokerage index repair-clock teams" in (await run(bench, "status"))[1]
    code, out, err = await run(bench, "repair-clock", "--json")
    assert (code, err) == (0, "")
    answer = orjson.loads(out)
    assert answer["listings"] is None
    assert answer["teams"]["documents"] == 1
    assert "teams: nothing to repair." in (await run(bench, "repair-clock", "teams"))[1]
    findings = {one.subject: one for one in await found(bench)}
    assert {findings[one].state for one in (MARKS, RECORD_TIMES)} == {FindingState.OK}
    assert "repair-clock" not in (await run(bench, "status"))[1]


async def test_doctor_names_records_from_the_future(bench: Bench) -> None:
    await start(bench, team("first", 0))
    future = envelope(TEAM, {"uuid": "t"}, updated_at="2200-01-01T00:00:00Z")
    await bench.update({TEAM: [future]}, future_seconds=1e10)
    findings = {one.subject: one for one in await found(bench)}
    assert findings[RECORD_TIMES].state is FindingState.WARNING
    assert findings[RECORD_TIMES].detail == "teams: 1, t (2200-01-01 00:00 UTC)."


def listing(name: str, day: int) -> dict[str, Any]:
    changes = {"PlatformListingId": name, "ListPrice": day}
    return envelope(LISTING, changes, updated_at=f"2026-01-{day:02}T00:00:00Z")


@asynccontextmanager
async def opened_feed(bench: Bench) -> AsyncIterator[Callable[[str], Awaitable[tuple[str, list[str]]]]]:
    """Return a function that polls listings from a watermark and returns the next one and the identifiers."""
    settings = ServiceSettings(fresh_seconds=0.001, stale_seconds=0.001, shared_seconds=0.001)
    grant = KeyGrant("all", all_companies=True, rate=None)
    key = (await KeyStore(bench.client, bench.connection.keys_index).create(grant)).reveal()
    async with TestClient(TestServer(create_app(settings, bench.connection))) as client:

        async def poll(since: str) -> tuple[str, list[str]]:
            query = {"platform_company_id": "acme", "updated_since": since}
            async with client.get("/v1/listings", params=query, headers={"x-api-key": key}) as answer:
                assert answer.status == 200
                found = [one["PlatformListingId"] for one in (await answer.json())["Listings"]]
                return answer.headers["X-Next-Updated-Since"], found

        yield poll


async def load_listings(bench: Bench, shift: float) -> None:
    """Load three listings, and change the first under a clock that is ahead by `shift` seconds."""
    await bench.build({COMPANY: [envelope(COMPANY)], LISTING: [listing("a", 1), listing("b", 1), listing("c", 1)]})
    await update_listings(bench, shift, listing("a", 2))


async def update_listings(bench: Bench, shift: float, *lines: dict[str, Any]) -> None:
    """Apply listings under a clock that is ahead by `shift` seconds, and is not compared."""
    with shifted_clock(shift):
        await bench.update({LISTING: lines}, clock_seconds=math.inf)


async def test_a_consumer_with_a_watermark_from_the_future_misses_nothing(bench: Bench) -> None:
    await load_listings(bench, YEAR_AND_MORE)
    async with opened_feed(bench) as poll:
        watermark, everything = await poll("0")
        assert (everything, int(watermark) * 1000 > present()) == (["a", "b", "c"], True)
        await update_listings(bench, YEAR_AND_MORE + 60, listing("b", 2))
        await repair_clock(bench.engine(), LISTING)
        await bench.update({LISTING: [listing("c", 2)]})

        async def is_settled() -> bool:
            return int((await poll(watermark))[0]) * 1000 <= present()

        # A mark is handed out as the next watermark a moment after it is used for the search.
        await until_true(is_settled)
        following, found = await poll(watermark)
        assert {"b", "c"} <= set(found)
        assert int(following) * 1000 <= present()


async def test_a_consumer_that_was_silent_until_the_time_of_its_watermark_misses_nothing(bench: Bench) -> None:
    await load_listings(bench, 3_600)
    async with opened_feed(bench) as poll:
        watermark, _ = await poll("0")
        await update_listings(bench, 3_660, listing("b", 2))
        await repair_clock(bench.engine(), LISTING)
        await bench.update({LISTING: [listing("c", 2)]})
        await update_listings(bench, 7_200, listing("a", 3))  # two hours later

        async def is_later() -> bool:
            return (await poll("0"))[0] > watermark

        await until_true(is_later)
        assert (await poll(watermark))[1] == ["a", "b", "c"]


async def test_the_command_names_the_consumers_that_must_start_over(bench: Bench) -> None:
    await load_listings(bench, 3_600)
    assert "start over" not in (await run(bench, "repair-clock", "listings"))[1]
    await update_listings(bench, YEAR_AND_MORE, listing("b", 2))
    assert "start over" in (await run(bench, "repair-clock", "listings"))[1]
