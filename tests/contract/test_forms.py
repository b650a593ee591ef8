"""What options change of a record: flags add exactly their members, short forms hold times alone, spelling is spelling.

Which members each variant has otherwise is tested in `test_fields.py`.
"""

from typing import Any

import pytest

from mappings.fields import underscore
from tests.contract.world import IDENTIFIERS, World, response_records, unix_time

COMPANY = "summit-crest"
LISTINGS = "/listings?platform_company_id=summit-crest&market_status=all&updated_since=1"
GOALS = ("gci_goal", "buyer_commission_rate", "seller_commission_rate")
INDEX_FLAGS = {
    "include_access_level": ("access_level", "view_level"),
    "include_company_programs": ("company_programs",),
    "include_partners": ("partners",),
    "include_website": ("website_base_url",),
    "include_reviews": ("user_reviews",),
    "include_bio": ("bio",),
}
SHOW_FLAGS = {
    "include_access_level": ("access_level", "view_level"),
    "include_gci_goals": GOALS,
    "include_partners": ("partners",),
    "include_reviews": ("user_reviews",),
}


async def _records(world: World, target: str, **parameters: str) -> list[dict[str, Any]]:
    path, _, query = target.partition("?")
    sent = dict(pair.split("=") for pair in query.split("&") if pair) | parameters
    records = response_records(await world.answer(path, page_size=None if path.count("/") > 1 else 1000, **sent))
    assert records
    return records


@pytest.mark.parametrize("flag", ["none", "all", *INDEX_FLAGS])
async def test_a_flag_of_the_agents_index_adds_its_members_alone(world: World, flag: str) -> None:
    sent = {"none": [], "all": [*INDEX_FLAGS]}.get(flag, [flag])
    source = {envelope["record"]["agent_uuid"]: envelope["record"] for envelope in world.of("agents")}
    left_out = {*GOALS, *(name for other, names in INDEX_FLAGS.items() if other not in sent for name in names)}
    for agent in await _records(world, "/agents?updated_since=1", **dict.fromkeys(sent, "true")):
        expected = source[agent["agent_uuid"]]
        assert agent == {name: value for name, value in expected.items() if name not in left_out}
    # Without values behind it, a flag that did nothing would pass unseen.
    assert all(any(agent[name] for agent in source.values()) for name in INDEX_FLAGS.get(flag, ()))


@pytest.mark.parametrize("flag", ["none", "all", *SHOW_FLAGS])
async def test_a_flag_of_the_agent_show_adds_its_members_and_the_others_are_there(world: World, flag: str) -> None:
    sent = {"none": [], "all": [*SHOW_FLAGS]}.get(flag, [flag])
    left_out = {name for other, names in SHOW_FLAGS.items() if other not in sent for name in names}
    for envelope in world.of("agents")[:5]:
        source = envelope["record"]
        [shown] = await _records(world, f"/agents/{source['agent_uuid']}", **dict.fromkeys(sent, "1"))
        assert shown == {name: value for name, value in source.items() if name not in left_out}
        assert {"bio", "company_programs", "website_base_url"} <= shown.keys()


@pytest.mark.parametrize(
    ("target", "members", "modified"),
    [
        (LISTINGS, ("PlatformListingId", "ListingID"), "ModificationTimestamp"),
        ("/sold_listings?updated_since=1", ("PlatformListingId", "ListingID"), "ModificationTimestamp"),
        ("/agents?updated_since=1", ("platform_agent_id", "agent_uuid"), "modification_timestamp"),
        ("/offices?", ("platform_office_id",), ""),
    ],
)
async def test_timestamps_only_leaves_identifiers_and_times(
    world: World, target: str, members: tuple[str, ...], modified: str
) -> None:
    resource = target.partition("?")[0][1:]
    source = {envelope["record"][members[-1]]: envelope for envelope in world.of(resource)}
    for record in await _records(world, target, timestamps_only="true"):
        envelope = source[record[members[-1]]]
        assert [*record] == [*members, "last_updated", "modification_timestamp"]
        assert [record[name] for name in members] == [envelope["record"][name] for name in members]
        assert record["last_updated"] == int(unix_time(envelope["updated_at"]))
        # Records of offices have no time of their own.
        expected = envelope["record"][modified] if modified else envelope["updated_at"]
        assert unix_time(record["modification_timestamp"]) == unix_time(expected)
        assert not modified or record["modification_timestamp"] == expected


def _underscored(value: Any) -> Any:
    if isinstance(value, dict):
        return {underscore(name): _underscored(inner) for name, inner in value.items()}
    return [_underscored(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("flag", ["true", "1", "TRUE"])
@pytest.mark.parametrize(
    "target",
    [
        LISTINGS,
        f"{LISTINGS}&timestamps_only=true",
        "/sold_listings?",
        "/sold_listings?timestamps_only=1",
        "/listings/{}",
    ],
)
async def test_an_underscored_response_differs_in_spelling_alone(world: World, target: str, flag: str) -> None:
    path, _, query = target.format(world.of("listings")[0]["record"]["PlatformListingId"]).partition("?")
    sent = dict(pair.split("=") for pair in query.split("&") if pair)
    plain, underscored = [await world.answer(path, **sent, underscore_response=text) for text in ("false", flag)]
    assert underscored == _underscored(plain) != plain
    [record, *_] = response_records(underscored)
    assert {"platform_listing_id", "listing_id"} <= record.keys()


SHOWS = ("listings", "sold_listings", "agents", "offices", "teams", "companies")


@pytest.mark.parametrize("resource", SHOWS)
async def test_a_show_is_found_by_each_of_its_identifiers_and_by_no_other(world: World, resource: str) -> None:
    envelope = world.of(resource, COMPANY)[0]
    record = envelope["record"]
    identifier = record[IDENTIFIERS[resource]]
    shown = await world.answer(f"/{resource}/{identifier}")
    assert shown.items() <= record.items()
    sent: dict[str, str]
    spellings: dict[str, list[tuple[str, dict[str, str]]]] = {
        "listings": [(identifier, {"platform_listing_id": identifier})],
        "sold_listings": [(identifier, {"platform_listing_id": identifier, "platform_company_id": COMPANY})],
        "agents": [
            (identifier.upper(), {}),
            (str(record.get("platform_agent_id")), {}),
            (f"{COMPANY}:{envelope.get('source_agent_id')}", {}),
            (str(envelope.get("source_agent_id")), {"platform_company_id": COMPANY}),
        ],
        "offices": [(identifier, {"platform_office_id": identifier})],
        "teams": [(identifier, {"platform_company_id": COMPANY})],
        "companies": [("4200", {})],
    }
    for other, sent in spellings[resource]:
        assert await world.answer(f"/{resource}/{other}", **sent) == shown
    foreign = {"platform_company_id": "orchard-street"} if resource != "companies" else {}
    for path, parameters in (("unknown", {}), ("unknown", foreign), (identifier if foreign else "unknown", foreign)):
        reply = await world.get(f"/{resource}/{path}", **parameters)
        assert (reply.status, reply.code) == (404, "not-found")


async def test_what_an_index_leaves_out_is_still_shown_and_what_is_not_sold_is_not(world: World) -> None:
    for resource in ("agents", "offices"):
        gone = world.of(resource, where=lambda envelope: envelope.get("deactivated_at") is not None)
        for envelope in gone:
            assert await world.answer(f"/{resource}/{envelope['record'][IDENTIFIERS[resource]]}")
    for shown, other in (("listings", "sold_listings"), ("sold_listings", "listings")):
        identifier = world.of(shown)[0]["record"]["PlatformListingId"]
        assert (await world.get(f"/{other}/{identifier}")).status == 404
