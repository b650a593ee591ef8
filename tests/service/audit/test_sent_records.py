"""Every way in which a record leaves is recorded, with what was sent and nothing else."""

import asyncio
import re

import pytest

from service.audit.reads import ABSENT, EVENT, LIVE
from service.changes.capability import CAPABILITY as CHANGES
from service.exports.operations import EXPORT_OPERATIONS
from service.history.capability import CAPABILITY as HISTORY
from service.reso.operations import RESO_OPERATIONS
from service.resources import OPERATIONS
from tests.feed.feed_client import deleted_listing, listing
from tests.records import UUID_OF_A_TEST
from tests.service.audit.conftest import LISTINGS, AuditedService, Sent

# Entity sets of parts of records, with the alias of these and the key; and entity sets that describe the service.
PARTS = {
    "Media": ("listings", "MediaKey"),
    "OpenHouse": ("listings", "OpenHouseKey"),
    "TeamMembers": ("agents", "TeamMemberKey"),
}
STATIC = ("Lookup", "Field")
ALL = {"companies": ["a", "b"], "offices": ["O1"], "agents": [UUID_OF_A_TEST], "teams": ["team-1"]}
SOLD = ["sold-1"]
OF_A = LISTINGS[::2]
SINCE = "platform_company_id=a&updated_since=1"
EVERYTHING: Sent = {
    (alias, LIVE): names for alias, names in {**ALL, "listings": LISTINGS, "sold_listings": SOLD}.items()
}
_BY_NAMED_KEY: list[tuple[str, str, str, Sent]] = [
    ("Property", "ListingKey='{key}'", "reso/Property('sold-1')", {("sold_listings", LIVE): SOLD}),
    ("Member", "MemberKey='{key}'", f"reso/Member('{UUID_OF_A_TEST}')", {("agents", LIVE): ALL["agents"]}),
    ("Office", "OfficeKey='{key}'", "reso/Office('O1')", {("offices", LIVE): ["O1"]}),
    ("Teams", "TeamKey='{key}'", "reso/Teams('team-1')", {("teams", LIVE): ["team-1"]}),
]
# What a request is sent, by the path of its operation.
CASES: list[tuple[str, str, Sent]] = [
    ("/listings", f"listings?{SINCE}", {("listings", LIVE): OF_A}),
    ("/listings", f"listings?{SINCE}&underscore_response=true", {("listings", LIVE): OF_A}),
    ("/listings", f"listings?{SINCE}&timestamps_only=true&page_size=2", {("listings", LIVE): OF_A[:2]}),
    ("/listings", f"listings?{SINCE}&page_size=1&last_platform_listing_id=L0", {("listings", LIVE): ["L2"]}),
    ("/listings", f"listings?{SINCE}&market_status=off-market", {}),
    ("/listings/{platform_listing_id}", "listings/L3", {("listings", LIVE): ["L3"]}),
    ("/listings/{platform_listing_id}", "listings/L9", {("listings", ABSENT): ["L9"]}),
    ("/listings/{platform_listing_id}", "listings/L9%0AL1", {}),
    ("/listings/{platform_listing_id}/history", "listings/L3/history", {("listings", LIVE): ["L3"]}),
    ("/listings/{platform_listing_id}/history", "listings/L9/history", {("listings", ABSENT): ["L9"]}),
    ("/sold_listings/{platform_listing_id}/history", "sold_listings/sold-1/history", {("sold_listings", LIVE): SOLD}),
    ("/sold_listings", "sold_listings?platform_company_id=a&updated_since=1", {("sold_listings", LIVE): SOLD}),
    ("/sold_listings/{platform_listing_id}", "sold_listings/sold-1", {("sold_listings", LIVE): SOLD}),
    ("/agents", "agents?updated_since=1", {("agents", LIVE): ALL["agents"]}),
    ("/agents", "agents?updated_since=1&timestamps_only=true", {("agents", LIVE): ALL["agents"]}),
    ("/agents/{guid}", f"agents/{UUID_OF_A_TEST.upper()}", {("agents", LIVE): ALL["agents"]}),
    ("/agents/{guid}", "agents/nobody", {("agents", ABSENT): ["nobody"]}),
    ("/offices", "offices", {("offices", LIVE): ["O1"]}),
    ("/offices/{platform_office_id}", "offices/O1", {("offices", LIVE): ["O1"]}),
    ("/teams", "teams", {("teams", LIVE): ["team-1"]}),
    ("/teams/{platform_team_id}", "teams/team-1", {("teams", LIVE): ["team-1"]}),
    ("/companies", "companies", {("companies", LIVE): ["a", "b"]}),
    ("/companies", "companies?page_number=1&page_size=1", {("companies", LIVE): ["a"]}),
    ("/companies/{platform_company_id}", "companies/a", {("companies", LIVE): ["a"]}),
    ("/changes", "changes", EVERYTHING),
    ("/snapshot/{resource}", "snapshot/listings", {("listings", LIVE): LISTINGS}),
    ("/reso/Property", "reso/Property", {("listings", LIVE): LISTINGS, ("sold_listings", LIVE): SOLD}),
    ("/reso/Property", "reso/Property?$select=StandardStatus&$top=1", {("listings", LIVE): ["L0"]}),
    ("/reso/Property('{key}')", "reso/Property('sold-1')", {("sold_listings", LIVE): SOLD}),
    (
        "/reso/Property('{key}')",
        "reso/Property('L9')",
        {("listings", ABSENT): ["L9"], ("sold_listings", ABSENT): ["L9"]},
    ),
    ("/reso/Member", "reso/Member", {("agents", LIVE): ALL["agents"]}),
    ("/reso/Member('{key}')", f"reso/Member('{UUID_OF_A_TEST}')", {("agents", LIVE): ALL["agents"]}),
    ("/reso/Office", "reso/Office", {("offices", LIVE): ["O1"]}),
    ("/reso/Office('{key}')", "reso/Office('O1')", {("offices", LIVE): ["O1"]}),
    ("/reso/Teams", "reso/Teams", {("teams", LIVE): ["team-1"]}),
    ("/reso/Teams('{key}')", "reso/Teams('team-1')", {("teams", LIVE): ["team-1"]}),
    *(
        (f"/reso/{name}({form})", path.replace("('", f"({form.partition('=')[0]}='"), sent)
        for name, form, path, sent in _BY_NAMED_KEY
    ),
    *(
        (f"/reso/{name}({form}'{{key}}')/{{property}}", f"{path}/ModificationTimestamp", sent)
        for name, named, path, sent in _BY_NAMED_KEY
        for form in ("", f"{named.partition('=')[0]}=")
    ),
    *((f"/reso/{name}/$count", f"reso/{name}/$count", {}) for name, *_ in _BY_NAMED_KEY),
    ("/reso/EntityEvent", "reso/EntityEvent?$filter=ResourceRecordKey eq 'L1'", {("listings", EVENT): ["L1"]}),
    # They send no record: digests have identifiers and hashes, the others are about the service.
    ("/digest/{resource}", "digest/listings", {}),
    ("/reso", "reso", {}),
    ("/reso/$metadata", "reso/$metadata", {}),
]


async def test_each_form_of_response_is_recorded_exactly(audited: AuditedService) -> None:
    known: Sent = {}
    for _, path, expected in CASES:
        await audited.ask(path)
        found = await audited.sent()
        new = {about: names[:] for about, names in found.items()}
        for about, names in known.items():
            for name in names:
                new[about].remove(name)
        assert {about: names for about, names in new.items() if names} == expected, path
        known = found


def test_no_operation_is_forgotten() -> None:
    capabilities = (*CHANGES.operations, *HISTORY.operations, *EXPORT_OPERATIONS, *RESO_OPERATIONS)
    operations = {operation.path for operation in (*OPERATIONS, *capabilities)}
    # Files are downloaded in tests/exports/test_serving.py.
    elsewhere = {"/reso/EntityEvent({key})", *(operation.path for operation in EXPORT_OPERATIONS)}
    # Rows of `HistoryTransactional` are sent as those of PARTS; here no listing has changed.
    others = tuple(f"/reso/{name}" for name in (*PARTS, *STATIC, "HistoryTransactional"))
    elsewhere |= {path for path in operations if path.startswith(others)}
    elsewhere |= {path for path in operations if re.search(r"\)/[A-Z]", path)}  # related entities
    assert operations - {path for path, _, _ in CASES} == elsewhere


@pytest.mark.parametrize("name", PARTS)
async def test_parts_of_records_are_recorded_as_their_records(audited: AuditedService, name: str) -> None:
    alias, key = PARTS[name]
    before_sold = f"?$filter={key} lt 'M'" if alias == "listings" else ""
    rows = (await audited.json(f"reso/{name}{before_sold}"))["value"]
    parents = sorted({row[key].partition("!")[0] for row in rows})
    assert parents
    assert await audited.sent() == {(alias, LIVE): parents}
    await audited.json(f"reso/{name}('{rows[0][key]}')")
    await audited.json(f"reso/{name}({key}='{rows[0][key]}')/{key}")
    assert (await audited.sent())[alias, LIVE].count(parents[0]) == 3
    await audited.ask(f"reso/{name}/$count")
    assert len((await audited.sent())[alias, LIVE]) == len(parents) + 2


async def test_expanded_records_are_recorded_like_others(audited: AuditedService) -> None:
    home = listing("L0", "a", 1)
    home["record"]["ListAgentUUID"] = UUID_OF_A_TEST
    await audited.update(home)
    page = await audited.json("reso/Property?$filter=ListingKey eq 'L0'&$expand=ListAgent($select=MemberKey)")
    assert page["value"][0]["ListAgent"] == {"MemberKey": UUID_OF_A_TEST}
    assert await audited.sent() == {("listings", LIVE): ["L0"], ("agents", LIVE): ALL["agents"]}


async def test_related_entities_are_recorded_with_the_one_that_leads_to_them(audited: AuditedService) -> None:
    home = listing("L0", "a", 1)
    home["record"] |= {"ListAgentUUID": UUID_OF_A_TEST, "ListingImages": [{"FullURL": "https://images.example/1"}]}
    await audited.update(home)
    assert (await audited.json("reso/Property('L0')/ListAgent"))["MemberKey"] == UUID_OF_A_TEST
    assert await audited.sent() == {("listings", LIVE): ["L0"], ("agents", LIVE): ALL["agents"]}
    assert len((await audited.json("reso/Property('L0')/Media"))["value"]) == 1
    assert {*(await audited.sent())[("listings", LIVE)]} == {"L0"}


@pytest.mark.parametrize("name", STATIC)
async def test_descriptions_of_the_service_are_no_records(audited: AuditedService, name: str) -> None:
    rows = (await audited.json(f"reso/{name}"))["value"]
    await audited.json(f"reso/{name}('{rows[0][f'{name}Key']}')")
    assert await audited.sent() == {}


async def test_one_event_is_recorded(audited: AuditedService) -> None:
    page = await audited.json("reso/EntityEvent?$filter=ResourceRecordKey eq 'L1'&$select=ResourceRecordKey")
    await audited.json(f"reso/EntityEvent({page['value'][0]['EntityEventSequence']})")
    assert await audited.sent() == {("listings", EVENT): ["L1", "L1"]}


async def test_geojson_is_recorded_like_json(audited: AuditedService) -> None:
    for path in (f"listings?{SINCE}", "listings/L1"):
        status, _, headers = await audited.ask(path, Accept="application/geo+json")
        assert (status, headers["Content-Type"]) == (200, "application/geo+json")
    assert await audited.sent() == {("listings", LIVE): sorted([*OF_A, "L1"])}


async def test_a_key_is_recorded_with_what_its_scope_let_it_read(audited: AuditedService) -> None:
    await asyncio.gather(audited.json("changes?resources=listings", "a"), audited.json("changes?resources=listings"))
    assert await audited.sent("a") == {("listings", LIVE): OF_A}
    assert await audited.sent("all") == {("listings", LIVE): LISTINGS}


async def test_a_removal_is_recorded_with_its_reason(audited: AuditedService) -> None:
    token = (await audited.json("changes?resources=listings", "a"))["next"]
    await audited.update(deleted_listing("L0", "a", 1), listing("L2", "b", 1), listing("L4", "a", 1, price=9))
    await audited.json(f"changes?since={token}", "a")
    assert await audited.sent("a") == {
        ("listings", LIVE): sorted([*OF_A, "L4"]),
        ("listings", "deleted"): ["L0"],
        ("listings", "out_of_scope"): ["L2"],
    }


async def test_what_was_refused_or_asked_for_by_head_was_not_sent(audited: AuditedService) -> None:
    assert (await audited.ask(f"listings?{SINCE}", method="HEAD"))[0] == 200
    assert (await audited.ask("listings/L9", method="HEAD"))[0] == 404
    assert (await audited.ask("listings?platform_company_id=b&updated_since=1", "a"))[0] == 403
    assert await audited.rows() == []


async def test_a_304_says_that_the_key_still_has_what_its_tag_is_of(audited: AuditedService) -> None:
    path = f"listings?{SINCE}"
    tag = (await audited.ask(path))[2]["ETag"]
    assert (await audited.ask(path, **{"If-None-Match": "*"}))[0] == 304
    assert await audited.sent(unchanged=True) == {}
    assert (await audited.ask(path, **{"If-None-Match": tag}))[0] == 304
    assert await audited.sent(unchanged=True) == await audited.sent() == {("listings", LIVE): OF_A}


async def test_a_page_is_at_least_as_new_as_its_sequence(audited: AuditedService) -> None:
    before = await audited.sequence()
    await audited.json(f"listings?{SINCE}")
    await audited.update(listing("L0", "a", 1, price=9))
    await audited.json(f"listings?{SINCE}")
    assert [page.sequence for page in await audited.pages("L0")] == [before, await audited.sequence()]


async def test_a_change_is_as_new_as_the_position_that_follows_it(audited: AuditedService) -> None:
    token = (await audited.json("changes?resources=listings"))["next"]
    waiting = asyncio.create_task(audited.json(f"changes?since={token}&wait=30"))
    await asyncio.sleep(0.1)
    await audited.update(listing("L0", "a", 1, price=9))
    assert [change["id"] for change in (await waiting)["changes"]] == ["L0"]
    assert (await audited.pages("L0"))[-1].sequence == await audited.sequence()


async def test_identifiers_that_json_escapes_are_recorded_as_they_are(audited: AuditedService) -> None:
    names = ['a"b', "a\\b", "ü"]
    await audited.update(*(listing(name, "a", 1) for name in names))
    token = (await audited.json("changes?resources=listings&page_size=6"))["next"]
    for path in (f"listings?{SINCE}", "reso/Property", "snapshot/listings", f"changes?since={token}"):
        before = sum(names.count(name) for name in (await audited.sent()).get(("listings", LIVE), ()))
        await audited.ask(path)
        assert sum(names.count(name) for name in (await audited.sent())["listings", LIVE]) == before + 3, path
