"""The service over a few records written by hand: identifiers in both cases, shared ones, and records without data."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mappings import AGENT, COMPANY, LISTING, OFFICE, TEAM
from mappings.fields import FieldKind
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import IDENTIFIERS, World, response_records
from tests.records import COMPANY_KEY, envelope, write

JANE, TWIN, OTHER_TWIN, FOREIGN = (f"0b0e6d3c-5f0d-4f35-9d3c-aaaaaaaaaaa{digit}" for digit in "0123")
LOWER_TEAM, UPPER_TEAM = "1f0c2b9e-8a51-4a6f-9d3c-aaaaaaaaaaaa", "2F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
OFFICE_ID = "3F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
OTHER_OFFICE_ID = "4F0C2B9E-8A51-4A6F-9D3C-AAAAAAAAAAAA"
MAIL = "Jane.Doe@Example.com"
# More companies than the matches that a look-up reads; the last UUID sorts behind all others.
CHILDREN = [f"child-{number:02}" for number in range(15)]
SHARED, NAMED = "1001", "ffffffff-5f0d-4f35-9d3c-aaaaaaaaaaaa"
WALK = {"platform_company_id": COMPANY_KEY, "updated_since": 0, "market_status": "all"}
BARE = WALK | {"platform_company_id": "rival"}


def _agent(uuid: str, platform_id: str, internal: str, company: str = COMPANY_KEY) -> dict[str, Any]:
    record = {"agent_uuid": uuid, "platform_agent_id": platform_id, "platform_office_id": OFFICE_ID}
    return envelope(AGENT, record, source_agent_id=internal, platform_company_id=company)


def _bare(line: dict[str, Any], *kept: str) -> dict[str, Any]:
    """Return an envelope whose record has these members alone."""
    return line | {"record": {name: line["record"][name] for name in kept}}


def _company(key: str, number: int, **parent: str) -> dict[str, Any]:
    line = envelope(COMPANY, {"platform_company_id": key, "numeric_id": str(number)}, **parent)
    return _bare(line, "platform_company_id", "numeric_id")


@pytest.fixture(scope="module")
async def written(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over a parent of many companies, whose agents share an identifier, and a rival."""
    listing = {"PlatformListingId": "L1", "ListAgentUUID": JANE, "SecondaryListAgentUUID": None}
    expired = {"PlatformListingId": "R2", "Status": "Expired", "StatusChangeDate": "2026-01-01"}
    lines = {
        COMPANY: [
            _company(COMPANY_KEY, 4100),
            _company("rival", 4200),
            *(_company(child, number, parent_company_id=COMPANY_KEY) for number, child in enumerate(CHILDREN, 4300)),
        ],
        OFFICE: [envelope(OFFICE, {"platform_office_id": identifier}) for identifier in (OFFICE_ID, OTHER_OFFICE_ID)],
        AGENT: [
            _agent(JANE, MAIL, "A-17"),
            _agent(TWIN, "twin@example.com", "A-18"),
            _agent(OTHER_TWIN, "Twin@example.com", "A-19"),
            _agent(FOREIGN, "boss@rival.com", "A-17", "rival"),
            *(
                _agent(f"0b0e6d3c-5f0d-4f35-9d3c-0000000000{at:02}", f"a{at}@x.org", SHARED, child)
                for at, child in enumerate(CHILDREN)
            ),
            _agent(NAMED, SHARED, "7", CHILDREN[0]),
        ],
        TEAM: [envelope(TEAM, {"uuid": uuid}) for uuid in (LOWER_TEAM, UPPER_TEAM)],
        LISTING: [
            envelope(LISTING, listing | {"ListAgentPlatformOfficeID": OFFICE_ID}),
            envelope(LISTING, {"PlatformListingId": "L2", "ListAgentPlatformOfficeID": OTHER_OFFICE_ID.lower()}),
            _bare(
                envelope(LISTING, {"PlatformListingId": "R1"}, platform_company_id="rival"),
                "PlatformListingId",
                "Status",
                "StatusChangeDate",
            ),
            _bare(envelope(LISTING, expired, platform_company_id="rival"), *expired),
        ],
    }
    source: Path = write(tmp_path_factory.mktemp("written") / "source", lines)
    grants = {
        "all": KeyGrant("all", all_companies=True, rate=None),
        "acme": KeyGrant("acme", companies=(COMPANY_KEY,), rate=None),
    }
    async with open_world(engine_url, source, grants) as opened:
        yield opened


def cases(text: str) -> list[str]:
    """Return a text in lower, upper and mixed case."""
    return [text.lower(), text.upper(), text.lower().title(), text]


OF_OFFICE = [JANE, TWIN, OTHER_TWIN]
# A path, with `{}` for an identifier in each spelling, and the identifiers of the records that are found.
FOUND: list[tuple[str, list[str], list[str]]] = [
    ("/teams/{}", cases(LOWER_TEAM), [LOWER_TEAM]),
    ("/teams/{}", cases(UPPER_TEAM), [UPPER_TEAM]),
    ("/agents/{}", [*cases(JANE), *cases(MAIL), f"{COMPANY_KEY}:A-17", "4100:A-17"], [JANE]),
    ("/agents/{}", ["twin@example.com"], [TWIN]),
    ("/agents/{}", ["Twin@example.com"], [OTHER_TWIN]),
    ("/agents/{}", ["rival:A-17", "4200:A-17", "BOSS@rival.com", FOREIGN.upper()], [FOREIGN]),
    ("/agents/{}?platform_company_id=rival", ["A-17"], [FOREIGN]),
    # A platform_agent_id precedes any number of source_agent_ids.
    (f"/agents/{{}}?parent_company_id={COMPANY_KEY}", [SHARED], [NAMED]),
    (f"/agents/{{}}?platform_company_id={CHILDREN[1]}", [SHARED], ["0b0e6d3c-5f0d-4f35-9d3c-000000000001"]),
    ("/offices/{}", cases(OFFICE_ID), [OFFICE_ID]),
    (f"/offices/{OFFICE_ID.lower()}?platform_office_id={{}}", cases(OFFICE_ID), [OFFICE_ID]),
    ("/listings?agent_uuid={}", cases(JANE), ["L1"]),
    ("/listings?platform_agent_id={}", [*cases(MAIL), f"{COMPANY_KEY}:A-17", "4100:A-17"], ["L1"]),
    ("/listings?platform_office_id={}", cases(OFFICE_ID), ["L1"]),
    # The listing names the office in another case than the office itself.
    ("/listings?platform_office_id={}", cases(OTHER_OFFICE_ID), ["L2"]),
    (f"/agents?updated_since=0&platform_company_id={COMPANY_KEY}&platform_office_id={{}}", cases(OFFICE_ID), OF_OFFICE),
]


@pytest.mark.parametrize(("target", "spellings", "found"), FOUND, ids=[f"{row[0]}-{row[1][0]}" for row in FOUND])
async def test_identifiers_are_found_in_each_spelling(
    written: World, target: str, spellings: list[str], found: list[str]
) -> None:
    for spelling in spellings:
        path, _, query = target.format(quote(spelling)).partition("?")
        sent = dict(pair.split("=") for pair in query.replace("%40", "@").replace("%3A", ":").split("&") if pair)
        answer = await written.answer(path, **(WALK if path == "/listings" else {}), **sent)
        assert [record[IDENTIFIERS[path.split("/")[1]]] for record in response_records(answer)] == found, spelling


@pytest.mark.parametrize(
    ("path", "key", "sent"),
    [("Member", "MemberKey", spelling) for spelling in cases(JANE)]
    + [("Teams", "TeamKey", spelling) for spelling in cases(UPPER_TEAM)],
)
async def test_keys_of_odata_are_uuids_in_any_case(written: World, path: str, key: str, sent: str) -> None:
    shown = await written.answer(f"/reso/{path}('{sent}')")
    assert shown[key].lower() == sent.lower()
    for condition in (f"{key} eq '{sent}'", f"{key} in ('{sent}')"):
        found = (await written.answer(f"/reso/{path}", **{"$filter": condition}))["value"]
        assert [row[key] for row in found] == [shown[key]]
    events = await written.answer("/reso/EntityEvent", **{"$filter": f"ResourceRecordKey eq '{sent}'"})
    assert {event["ResourceRecordKey"] for event in events["value"]} == {shown[key]}


async def test_an_identifier_that_does_not_decide_is_refused(written: World) -> None:
    family = {"parent_company_id": COMPANY_KEY}
    for path, sent, name in (
        ("/agents/TWIN@example.com", {}, "guid"),
        ("/agents/A-17", {"parent_company_id": "rival"}, "parent_company_id"),
        ("/sold_listings", family | {"source_agent_id": SHARED}, "source_agent_id"),
        (f"/offices/{OFFICE_ID}", {"platform_office_id": OTHER_OFFICE_ID}, "platform_office_id"),
    ):
        reply = await written.get(path, **sent)
        assert (reply.status, reply.parameters) == (400, {name}), path


async def test_an_agent_of_another_company_stays_hidden(written: World) -> None:
    for sent in ("rival:A-17", "4200:A-17", "BOSS@rival.com", FOREIGN.upper()):
        assert (await written.get(f"/agents/{quote(sent)}", "acme")).status == 404


async def test_a_source_agent_id_without_a_company_says_that_a_scope_is_missing(written: World) -> None:
    for sent in ("A-17", "nobody"):
        bare, scoped = await written.get(f"/agents/{sent}"), await written.get("/agents/x", platform_company_id="rival")
        assert (bare.status, scoped.status) == (404, 404)
        assert "platform_company_id or parent_company_id" in bare.body["detail"]
        assert scoped.body["detail"] == "There is no agent 'x'."


async def test_members_without_data_are_null_and_never_false_and_arrays_empty(written: World) -> None:
    nulls = [field.name for field in LISTING.fields if field.kind is FieldKind.BOOLEAN and field.name != "OnMarket"]
    listings = (await written.answer("/listings", **BARE))["Listings"]
    assert len(listings) == 2
    for listing in listings:
        assert [listing[name] for name in nulls] == [None] * len(nulls)
        assert listing["ListingImages"] == listing["OpenHouse"] == []
    companies = [await written.answer(f"/companies/{COMPANY_KEY}"), *await written.answer("/companies")]
    assert [company["public_partner_attrs"] for company in companies] == [{"is_nrt": None}] * len(companies)


async def test_status_change_date_is_there_and_null_off_the_market(written: World) -> None:
    active, expired = (await written.answer("/listings", **BARE))["Listings"]
    assert active["StatusChangeDate"]
    assert expired["StatusChangeDate"] is None
    assert "StatusChangeDate" not in await written.answer("/listings/R2")
