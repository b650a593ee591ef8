"""Identifiers in any case: UUIDs in every request that names one, mail addresses of agents, ids within a company."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mappings import AGENT, COMPANY, LISTING, OFFICE, TEAM
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import World
from tests.records import COMPANY_KEY, envelope, write

JANE, TWIN, OTHER_TWIN, FOREIGN = (f"0b0e6d3c-5f0d-4f35-9d3c-aaaaaaaaaaa{digit}" for digit in "0123")
LOWER_TEAM, UPPER_TEAM = "1f0c2b9e-8a51-4a6f-9d3c-aaaaaaaaaaaa", "2F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
OFFICE_ID = "3F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
OTHER_OFFICE_ID = "4F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
MAIL = "Jane.Doe@Example.com"
WALK = {"platform_company_id": COMPANY_KEY, "updated_since": 0, "market_status": "all"}


def _agent(uuid: str, mail: str, internal: str, company: str = COMPANY_KEY) -> dict[str, Any]:
    record = {"agent_uuid": uuid, "platform_agent_id": mail, "platform_office_id": OFFICE_ID}
    return envelope(AGENT, record, source_agent_id=internal, platform_company_id=company)


@pytest.fixture(scope="module")
async def named(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over records whose identifiers have letters in both cases."""
    listing = {"PlatformListingId": "L1", "ListAgentUUID": JANE, "SecondaryListAgentUUID": None}
    lines = {
        COMPANY: [
            envelope(COMPANY),
            envelope(COMPANY, {"platform_company_id": "rival", "numeric_id": "4200"}),
        ],
        OFFICE: [envelope(OFFICE, {"platform_office_id": identifier}) for identifier in (OFFICE_ID, OTHER_OFFICE_ID)],
        AGENT: [
            _agent(JANE, MAIL, "A-17"),
            _agent(TWIN, "twin@example.com", "A-18"),
            _agent(OTHER_TWIN, "Twin@example.com", "A-19"),
            _agent(FOREIGN, "boss@rival.com", "A-17", "rival"),
        ],
        TEAM: [envelope(TEAM, {"uuid": uuid}) for uuid in (LOWER_TEAM, UPPER_TEAM)],
        LISTING: [
            envelope(LISTING, listing | {"ListAgentPlatformOfficeID": OFFICE_ID}),
            envelope(LISTING, {"PlatformListingId": "L2", "ListAgentPlatformOfficeID": OTHER_OFFICE_ID.lower()}),
        ],
    }
    source: Path = write(tmp_path_factory.mktemp("case") / "source", lines)
    grants = {
        "all": KeyGrant("all", all_companies=True, rate=None),
        "acme": KeyGrant("acme", companies=(COMPANY_KEY,), rate=None),
    }
    async with open_world(engine_url, source, grants) as opened:
        yield opened


def cases(text: str) -> list[str]:
    """Return a text in lower, upper and mixed case."""
    return [text.lower(), text.upper(), text.lower().title(), text]


@pytest.mark.parametrize("sent", cases(LOWER_TEAM) + cases(UPPER_TEAM))
async def test_a_team_is_shown_by_its_uuid_in_any_case(named: World, sent: str) -> None:
    shown = await named.answer(f"/teams/{sent}")
    assert shown["uuid"] in {LOWER_TEAM, UPPER_TEAM}
    assert shown["uuid"].lower() == sent.lower()


@pytest.mark.parametrize("sent", [*cases(JANE), *cases(MAIL), f"{COMPANY_KEY}:A-17", "4100:A-17"])
async def test_an_agent_is_shown_and_filters_by_each_spelling(named: World, sent: str) -> None:
    assert (await named.answer(f"/agents/{quote(sent)}", "acme"))["agent_uuid"] == JANE
    name = "agent_uuid" if sent.lower() == JANE else "platform_agent_id"
    page = await named.answer("/listings", "acme", **{**WALK, name: sent})
    assert [listing["PlatformListingId"] for listing in page["Listings"]] == ["L1"]


async def test_mail_addresses_that_differ_in_case_alone_are_distinguished_by_it(named: World) -> None:
    assert (await named.answer("/agents/twin@example.com"))["agent_uuid"] == TWIN
    assert (await named.answer("/agents/Twin@example.com"))["agent_uuid"] == OTHER_TWIN
    reply = await named.get("/agents/TWIN@example.com")
    assert (reply.status, reply.parameters) == (400, {"guid"})


@pytest.mark.parametrize("sent", cases(OFFICE_ID))
async def test_an_office_is_shown_and_filters_by_its_uuid_in_any_case(named: World, sent: str) -> None:
    assert (await named.answer(f"/offices/{sent}", platform_office_id=OFFICE_ID))["platform_office_id"] == OFFICE_ID
    page = await named.answer("/listings", **{**WALK, "platform_office_id": sent})
    assert [listing["PlatformListingId"] for listing in page["Listings"]] == ["L1"]
    agents = await named.answer("/agents", platform_company_id=COMPANY_KEY, platform_office_id=sent, updated_since=0)
    assert {agent["agent_uuid"] for agent in agents} == {JANE, TWIN, OTHER_TWIN}


@pytest.mark.parametrize("sent", cases(OTHER_OFFICE_ID))
async def test_an_office_filters_listings_that_name_it_in_another_case(named: World, sent: str) -> None:
    page = await named.answer("/listings", **{**WALK, "platform_office_id": sent})
    assert [listing["PlatformListingId"] for listing in page["Listings"]] == ["L2"]


@pytest.mark.parametrize("sent", cases(OFFICE_ID))
async def test_a_query_repeats_the_uuid_of_the_path_in_any_case(named: World, sent: str) -> None:
    for path in (OFFICE_ID, OFFICE_ID.lower()):
        assert (await named.answer(f"/offices/{path}", platform_office_id=sent))["platform_office_id"] == OFFICE_ID
    reply = await named.get(f"/offices/{OFFICE_ID}", platform_office_id=OTHER_OFFICE_ID)
    assert (reply.status, reply.parameters) == (400, {"platform_office_id"})


@pytest.mark.parametrize(
    ("path", "key", "sent"),
    [("Member", "MemberKey", each) for each in cases(JANE)]
    + [("Teams", "TeamKey", each) for each in cases(UPPER_TEAM)],
)
async def test_keys_of_odata_are_uuids_in_any_case(named: World, path: str, key: str, sent: str) -> None:
    shown = await named.answer(f"/reso/{path}('{sent}')")
    assert shown[key].lower() == sent.lower()
    for operator in ("eq", "in"):
        filtered = f"{key} {operator} {'' if operator == 'eq' else '('}'{sent}'{'' if operator == 'eq' else ')'}"
        found = (await named.answer(f"/reso/{path}", **{"$filter": filtered}))["value"]
        assert [row[key] for row in found] == [shown[key]]
    events = await named.answer("/reso/EntityEvent", **{"$filter": f"ResourceRecordKey eq '{sent}'"})
    assert {event["ResourceRecordKey"] for event in events["value"]} == {shown[key]}


async def test_an_agent_of_another_company_stays_hidden(named: World) -> None:
    for sent in ("rival:A-17", "4200:A-17", "BOSS@rival.com", FOREIGN.upper()):
        assert (await named.get(f"/agents/{quote(sent)}", "acme")).status == 404
        assert (await named.get(f"/agents/{quote(sent)}")).status == 200


async def test_a_source_agent_id_without_a_company_says_that_a_scope_is_missing(named: World) -> None:
    for sent in ("A-17", "nobody"):
        bare, scoped = await named.get(f"/agents/{sent}"), await named.get("/agents/x", platform_company_id="rival")
        assert (bare.status, scoped.status) == (404, 404)
        assert "platform_company_id or parent_company_id" in bare.body["detail"]
        assert scoped.body["detail"] == "There is no agent 'x'."
    assert (await named.answer("/agents/A-17", platform_company_id="rival"))["agent_uuid"] == FOREIGN
