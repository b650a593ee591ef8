"""Each parameter of the listings index against what the source says it must answer."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from mappings.fields import underscore
from mappings.listing import PROPERTY_TYPES
from tests.contract.world import (
    ON_MARKET,
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
ALL: dict[str, Any] = {"market_status": "all", **EVER}


def _status(*statuses: str) -> Callable[[Envelope], bool]:
    return lambda envelope: envelope["record"]["Status"] in statuses


async def _walked(world: World, **parameters: Any) -> list[str]:
    return response_identifiers(
        await world.walk("/listings", platform_company_id=COMPANY, page_size=1000, **parameters)
    )


async def test_the_company_is_required(world: World) -> None:
    reply = await world.get("/listings")
    assert (reply.status, reply.parameters) == (400, {"platform_company_id"})


async def test_the_company_is_required_with_a_parent_too(world: World) -> None:
    reply = await world.get("/listings", "parent", parent_company_id="4100")
    assert (reply.status, reply.parameters) == (400, {"platform_company_id"})


async def test_a_company_is_named_by_key_or_number(world: World) -> None:
    by_key = await world.answer("/listings", platform_company_id=COMPANY)
    assert await world.answer("/listings", platform_company_id=world.numeric(COMPANY)) == by_key


async def test_without_a_window_the_last_seven_days_on_the_market_are_returned(world: World) -> None:
    recent = updated_after(default_window_start())
    expected = world.of("listings", COMPANY, where=lambda e: recent(e) and _status(*ON_MARKET)(e))
    assert await _walked(world) == source_identifiers(expected)
    assert 0 < len(expected) < len(world.of("listings", COMPANY, where=_status(*ON_MARKET)))


@pytest.mark.parametrize("days", [0, 1, 30, 400])
async def test_updated_since_answers_what_changed_from_that_second_on(world: World, days: int) -> None:
    begins = int(time.time()) - days * 24 * 3600
    expected = world.of("listings", COMPANY, where=updated_after(begins))
    assert await _walked(world, market_status="all", updated_since=begins) == source_identifiers(expected)


async def test_the_boundary_second_of_updated_since_is_answered_again(world: World) -> None:
    [envelope, *_] = world.of("listings", COMPANY)
    begins = int(unix_time(envelope["updated_at"]))
    assert envelope["record"]["PlatformListingId"] in await _walked(world, market_status="all", updated_since=begins)
    later = await _walked(world, market_status="all", updated_since=begins + 1)
    assert envelope["record"]["PlatformListingId"] not in later


@pytest.mark.parametrize(
    ("market_status", "statuses"),
    [
        ("on-market", ON_MARKET),
        ("off-market", ("Expired", "Canceled", "Withdrawn", "TempOffMarket", "Sold", "Other")),
        ("all", (*ON_MARKET, "ComingSoon", "Expired", "Canceled", "Withdrawn", "TempOffMarket", "Sold", "Other")),
    ],
)
async def test_market_status_follows_status(world: World, market_status: str, statuses: tuple[str, ...]) -> None:
    expected = world.of("listings", COMPANY, where=_status(*statuses))
    assert expected
    assert await _walked(world, market_status=market_status, **EVER) == source_identifiers(expected)


@pytest.mark.parametrize("market_status", [None, "on-market", "off-market", "all"])
async def test_coming_soon_overrides_market_status(world: World, market_status: str | None) -> None:
    expected = world.of("listings", COMPANY, where=_status("ComingSoon"))
    assert expected
    assert await _walked(world, coming_soon="true", market_status=market_status, **EVER) == source_identifiers(expected)


async def test_coming_soon_false_changes_nothing(world: World) -> None:
    assert await _walked(world, coming_soon="false", **ALL) == await _walked(world, **ALL)


@pytest.mark.parametrize("number", sorted(PROPERTY_TYPES))
async def test_each_property_type_answers_its_own(world: World, number: int) -> None:
    expected = world.of("listings", COMPANY, where=lambda e: e["record"]["PropertyType"] == PROPERTY_TYPES[number])
    assert await _walked(world, property_types=number, **ALL) == source_identifiers(expected)


async def test_several_property_types_answer_their_union(world: World) -> None:
    names = {PROPERTY_TYPES[1], PROPERTY_TYPES[2], PROPERTY_TYPES[9]}
    expected = world.of("listings", COMPANY, where=lambda e: e["record"]["PropertyType"] in names)
    assert await _walked(world, property_types="1,2,9", **ALL) == source_identifiers(expected)


@pytest.mark.parametrize("property_types", ["0", "24", "-2", "1,x", "1,,2", "", "1, 2", "one"])
async def test_a_property_type_outside_the_legend_is_refused(world: World, property_types: str) -> None:
    reply = await world.get("/listings", platform_company_id=COMPANY, property_types=property_types)
    assert (reply.status, reply.parameters) == (400, {"property_types"})


async def test_only_agent_created_answers_non_mls_listings(world: World) -> None:
    expected = world.of("listings", COMPANY, where=lambda e: bool(e["record"]["AgentCreatedListing"]))
    assert expected
    assert await _walked(world, only_agent_created="1", **ALL) == source_identifiers(expected)


def _of_agent(uuid: str) -> Callable[[Envelope], bool]:
    return lambda e: uuid in {e["record"]["ListAgentUUID"], e["record"]["SecondaryListAgentUUID"]}


def _busy_agent(world: World) -> Envelope:
    """Return an agent who lists alone and as second."""
    listings = world.of("listings", COMPANY)
    first = {e["record"]["ListAgentUUID"] for e in listings}
    both = first & {e["record"]["SecondaryListAgentUUID"] for e in listings}
    return next(agent for agent in world.of("agents", COMPANY) if agent["record"]["agent_uuid"] in both)


async def test_an_agent_is_referred_to_in_four_ways(world: World) -> None:
    agent = _busy_agent(world)
    uuid = agent["record"]["agent_uuid"]
    expected = source_identifiers(world.of("listings", COMPANY, where=_of_agent(uuid)))
    assert expected
    for reference in (
        {"agent_uuid": uuid},
        {"agent_uuid": uuid.upper()},
        {"platform_agent_id": agent["record"]["platform_agent_id"]},
        {"platform_agent_id": f"{COMPANY}:{agent['source_agent_id']}"},
        {"platform_agent_id": f"{world.numeric(COMPANY)}:{agent['source_agent_id']}"},
        {"source_agent_id": agent["source_agent_id"]},
    ):
        assert await _walked(world, **reference, **ALL) == expected, reference


async def test_an_unknown_but_well_formed_agent_uuid_answers_nothing(world: World) -> None:
    assert await _walked(world, agent_uuid="00000000-0000-4000-8000-000000000000", **ALL) == []


@pytest.mark.parametrize("parameter", ["platform_agent_id", "source_agent_id", "platform_office_id"])
async def test_a_reference_to_nothing_is_refused(world: World, parameter: str) -> None:
    reply = await world.get("/listings", platform_company_id=COMPANY, **{parameter: "unknown@nowhere.example"})
    assert (reply.status, reply.parameters) == (400, {parameter})


async def test_an_office_is_referred_to_by_its_id(world: World) -> None:
    [envelope, *_] = world.of("listings", COMPANY)
    office = envelope["record"]["ListAgentPlatformOfficeID"]
    expected = world.of("listings", COMPANY, where=lambda e: e["record"]["ListAgentPlatformOfficeID"] == office)
    assert await _walked(world, platform_office_id=office, **ALL) == source_identifiers(expected)


async def test_shared_partner_data_adds_listings(world: World) -> None:
    """The window of partner data widens `updated_since`; other filters still hold."""
    begins = int(time.time()) - 3600

    def partner(envelope: Envelope) -> bool:
        changed = envelope.get("shared_partner_data_updated_at")
        return changed is not None and unix_time(changed) >= 1

    recent = updated_after(begins)
    expected = world.of("listings", COMPANY, where=lambda e: recent(e) or partner(e))
    walked = await _walked(world, market_status="all", updated_since=begins, shared_partner_data_updated_since=1)
    assert walked == source_identifiers(expected)
    assert len(walked) > len(world.of("listings", COMPANY, where=recent))


async def test_filters_together_answer_what_all_of_them_match(world: World) -> None:
    agent = _busy_agent(world)["record"]["agent_uuid"]
    of_agent, active = _of_agent(agent), _status("Active", "Pending", "Contingent")
    expected = world.of("listings", COMPANY, where=lambda e: of_agent(e) and active(e))
    assert await _walked(world, agent_uuid=agent, market_status="on-market", **EVER) == source_identifiers(expected)


async def test_timestamps_only_answers_identifiers_and_times(world: World) -> None:
    by_id = {e["record"]["PlatformListingId"]: e for e in world.of("listings", COMPANY)}
    for record in await world.walk("/listings", platform_company_id=COMPANY, timestamps_only="true", **ALL):
        envelope = by_id[record["PlatformListingId"]]
        assert record == {
            "PlatformListingId": envelope["record"]["PlatformListingId"],
            "ListingID": envelope["record"]["ListingID"],
            "last_updated": int(unix_time(envelope["updated_at"])),
            "modification_timestamp": envelope["record"]["ModificationTimestamp"],
        }


def _underscored(value: Any) -> Any:
    if isinstance(value, dict):
        return {underscore(name): _underscored(inner) for name, inner in value.items()}
    return [_underscored(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", ["/listings", "/sold_listings"])
@pytest.mark.parametrize("timestamps_only", ["true", "false"])
async def test_underscored_pages_differ_in_spelling_alone(world: World, path: str, timestamps_only: str) -> None:
    parameters = {"platform_company_id": COMPANY, "timestamps_only": timestamps_only, "updated_since": 1}
    plain = await world.answer(path, **parameters)
    assert await world.answer(path, underscore_response="true", **parameters) == _underscored(plain)


async def test_an_underscored_show_differs_in_spelling_alone(world: World) -> None:
    path = f"/listings/{world.of('listings')[0]['record']['PlatformListingId']}"
    plain = await world.answer(path)
    assert await world.answer(path, underscore_response="TRUE") == _underscored(plain)


async def test_a_show_is_the_source_record_without_the_fields_of_the_index(world: World) -> None:
    [envelope, *_] = world.of("listings")
    shown = await world.answer(f"/listings/{envelope['record']['PlatformListingId']}")
    assert shown == {name: value for name, value in envelope["record"].items() if name in shown}


async def test_a_show_may_repeat_its_identifier_in_the_query(world: World) -> None:
    listing = world.of("listings")[0]["record"]["PlatformListingId"]
    assert await world.answer(f"/listings/{listing}", platform_listing_id=listing)
    reply = await world.get(f"/listings/{listing}", platform_listing_id="another")
    assert (reply.status, reply.parameters) == (400, {"platform_listing_id"})


async def test_an_unknown_listing_is_not_found(world: World) -> None:
    reply = await world.get("/listings/unknown")
    assert (reply.status, reply.code) == (404, "not-found")


async def test_the_first_page_has_the_next_watermark_and_later_ones_do_not(world: World) -> None:
    first = await world.get("/listings", platform_company_id=COMPANY, page_size=1)
    watermark = int(first.headers["X-Next-Updated-Since"])
    assert max(unix_time(e["updated_at"]) for e in world.of("listings")) < watermark + 1
    assert watermark <= time.time()
    cursor = first.body["Listings"][0]["PlatformListingId"]
    later = await world.get("/listings", platform_company_id=COMPANY, page_size=1, last_platform_listing_id=cursor)
    assert "X-Next-Updated-Since" not in later.headers


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("updated_since", "yesterday"),
        ("updated_since", "-1"),
        ("updated_since", "1700000000000"),
        ("shared_partner_data_updated_since", "1.5"),
        ("market_status", "onmarket"),
        ("only_agent_created", "yes"),
        ("coming_soon", ""),
        ("underscore_response", "2"),
        ("timestamps_only", "on"),
        ("agent_uuid", "not-a-uuid"),
        ("agent_uuid", "urn:uuid:3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"),
        ("page_size", "0"),
        ("page_size", "1001"),
        ("page_size", "1e2"),
        ("last_platform_listing_id", ""),
        ("platform_office_id", "a" * 129),
    ],
)
async def test_a_bad_value_is_refused_by_name(world: World, parameter: str, value: str) -> None:
    reply = await world.get("/listings", platform_company_id=COMPANY, **{parameter: value})
    assert (reply.status, reply.parameters) == (400, {parameter})


async def test_all_problems_of_a_request_are_reported_at_once(world: World) -> None:
    reply = await world.get("/listings", market_status="x", property_types="99", page_size="0", updated_sinse="1")
    assert reply.parameters == {
        "platform_company_id",
        "market_status",
        "property_types",
        "page_size",
        "updated_sinse",
    }
    assert any("updated_since" in message for message in reply.body["messages"])
