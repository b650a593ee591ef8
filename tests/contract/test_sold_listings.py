"""Each parameter of the sold listings index against what the source says it must answer."""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from mappings.listing import PROPERTY_TYPES
from tests.contract.world import (
    Envelope,
    World,
    default_window_start,
    response_identifiers,
    source_identifiers,
    unix_time,
    updated_after,
)

COMPANY = "summit-crest"
EVER: dict[str, Any] = {"updated_since": 1}
DAY_SECONDS = 24 * 3600


def _sold_at(envelope: Envelope) -> float:
    """Return the first second of the day of sale, UTC."""
    day = dt.date.fromisoformat(envelope["record"]["SoldDate"])
    return dt.datetime.combine(day, dt.time(), dt.UTC).timestamp()


def _sold_from(begins: float) -> Callable[[Envelope], bool]:
    return lambda envelope: _sold_at(envelope) >= begins // DAY_SECONDS * DAY_SECONDS


async def _walked(world: World, **parameters: Any) -> list[str]:
    return response_identifiers(
        await world.walk("/sold_listings", platform_company_id=COMPANY, page_size=1000, **parameters)
    )


async def test_without_times_the_sales_of_the_last_seven_days_are_returned(world: World) -> None:
    expected = world.of("sold_listings", COMPANY, where=_sold_from(default_window_start()))
    assert 0 < len(expected) < len(world.of("sold_listings", COMPANY))
    assert await _walked(world) == source_identifiers(expected)


@pytest.mark.parametrize("days", [3, 60, 300])
async def test_sold_since_counts_the_day_whole(world: World, days: int) -> None:
    begins = int(time.time()) - days * DAY_SECONDS
    expected = world.of("sold_listings", COMPANY, where=_sold_from(begins))
    assert await _walked(world, sold_since=begins) == source_identifiers(expected)


@pytest.mark.parametrize("days", [3, 60, 300])
async def test_sold_before_needs_no_other_bound(world: World, days: int) -> None:
    ends = int(time.time()) - days * DAY_SECONDS
    expected = world.of("sold_listings", COMPANY, where=lambda e: _sold_at(e) <= ends)
    assert await _walked(world, sold_before=ends) == source_identifiers(expected)


async def test_both_bounds_hold_together(world: World) -> None:
    begins, ends = int(time.time()) - 200 * DAY_SECONDS, int(time.time()) - 100 * DAY_SECONDS
    from_begin = _sold_from(begins)
    expected = world.of("sold_listings", COMPANY, where=lambda e: from_begin(e) and _sold_at(e) <= ends)
    assert expected
    assert await _walked(world, sold_since=begins, sold_before=ends) == source_identifiers(expected)


async def test_updated_since_takes_the_place_of_the_default_window(world: World) -> None:
    begins = int(time.time()) - 90 * DAY_SECONDS
    expected = world.of("sold_listings", COMPANY, where=updated_after(begins))
    assert await _walked(world, updated_since=begins) == source_identifiers(expected)


def _buyer(world: World) -> Envelope:
    """Return an agent who has sold for owners and bought for others."""
    sold = world.of("sold_listings", COMPANY)
    buyers = {e["record"]["BuyerAgentUUID"] for e in sold} & {e["record"]["ListAgentUUID"] for e in sold}
    return next(agent for agent in world.of("agents", COMPANY) if agent["record"]["agent_uuid"] in buyers)


@pytest.mark.parametrize("kind", ["agent_uuid", "platform_agent_id", "source_agent_id"])
async def test_an_agent_filter_matches_the_buyer_side_on_request(world: World, kind: str) -> None:
    agent = _buyer(world)
    uuid = agent["record"]["agent_uuid"]
    reference = {kind: agent["source_agent_id"] if kind == "source_agent_id" else agent["record"][kind]}
    sides = ("ListAgentUUID", "SecondaryListAgentUUID")
    listed = world.of("sold_listings", COMPANY, where=lambda e: uuid in {e["record"][side] for side in sides})
    either = world.of(
        "sold_listings", COMPANY, where=lambda e: uuid in {e["record"][side] for side in (*sides, "BuyerAgentUUID")}
    )
    assert await _walked(world, **reference, **EVER) == source_identifiers(listed)
    assert await _walked(world, **reference, include_buyer_listings="true", **EVER) == source_identifiers(either)
    assert len(either) > len(listed)


async def test_an_office_filter_matches_the_buyer_side_on_request(world: World) -> None:
    office = next(
        e["record"]["BuyerAgentPlatformOfficeID"]
        for e in world.of("sold_listings", COMPANY)
        if e["record"]["BuyerAgentPlatformOfficeID"]
        in {office["record"]["platform_office_id"] for office in world.of("offices", COMPANY)}
    )
    listed = world.of("sold_listings", COMPANY, where=lambda e: e["record"]["ListAgentPlatformOfficeID"] == office)
    either = world.of(
        "sold_listings",
        COMPANY,
        where=lambda e: office in {e["record"]["ListAgentPlatformOfficeID"], e["record"]["BuyerAgentPlatformOfficeID"]},
    )
    reference = {"platform_office_id": office}
    assert await _walked(world, **reference, **EVER) == source_identifiers(listed)
    assert await _walked(world, **reference, include_buyer_listings="1", **EVER) == source_identifiers(either)


async def test_property_types_restrict_sold_listings(world: World) -> None:
    names = {PROPERTY_TYPES[1], PROPERTY_TYPES[9]}
    expected = world.of("sold_listings", COMPANY, where=lambda e: e["record"]["PropertyType"] in names)
    assert await _walked(world, property_types="1,9", **EVER) == source_identifiers(expected)


@pytest.mark.parametrize("parameter", ["platform_agent_id", "source_agent_id", "platform_office_id"])
async def test_a_reference_to_nothing_is_refused(world: World, parameter: str) -> None:
    reply = await world.get("/sold_listings", platform_company_id=COMPANY, **{parameter: "unknown"})
    assert (reply.status, reply.parameters) == (400, {parameter})


async def test_a_source_agent_id_needs_a_company(world: World) -> None:
    agent = _buyer(world)["source_agent_id"]
    reply = await world.get("/sold_listings", source_agent_id=agent)
    assert (reply.status, reply.parameters) == (400, {"source_agent_id"})


async def test_timestamps_only_answers_identifiers_and_times(world: World) -> None:
    by_id = {e["record"]["PlatformListingId"]: e for e in world.of("sold_listings", COMPANY)}
    walked = await world.walk("/sold_listings", platform_company_id=COMPANY, timestamps_only="1", **EVER)
    assert len(walked) == len(by_id)
    for record in walked:
        envelope = by_id[record["PlatformListingId"]]
        assert record["ListingID"] == envelope["record"]["ListingID"]
        assert record["last_updated"] == int(unix_time(envelope["updated_at"]))
        assert record["modification_timestamp"] == envelope["record"]["ModificationTimestamp"]


@pytest.mark.parametrize("name", ["sold_since", "sold_before", "updated_since", "include_buyer_listings", "page_size"])
async def test_a_bad_value_is_refused_by_name(world: World, name: str) -> None:
    reply = await world.get("/sold_listings", **{name: "soon"})
    assert (reply.status, reply.parameters) == (400, {name})


async def test_a_listing_that_is_not_sold_is_not_a_sold_listing(world: World) -> None:
    listing = world.of("listings")[0]["record"]["PlatformListingId"]
    assert (await world.get(f"/sold_listings/{listing}")).status == 404


async def test_the_show_takes_a_company(world: World) -> None:
    sold = world.of("sold_listings", COMPANY)[0]["record"]["PlatformListingId"]
    assert await world.answer(f"/sold_listings/{sold}", platform_company_id=COMPANY)
    assert (await world.get(f"/sold_listings/{sold}", platform_company_id="orchard-street")).status == 404


async def test_the_first_page_has_the_next_watermark(world: World) -> None:
    assert int((await world.get("/sold_listings")).headers["X-Next-Updated-Since"]) <= time.time()
