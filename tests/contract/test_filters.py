"""Every index holds exactly the records for which its parameters hold, in order; every bad value is refused by name.

Conditions are on the records of the source. The rows of listings are asked for one company, which is required there;
which companies a request may read is tested in `tests/security/test_scope_matrix.py`.
"""

import datetime as dt
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.contract.world import IDENTIFIERS, ON_MARKET, WEEK_SECONDS, World, response_records, unix_time

COMPANY = "summit-crest"
DAY_SECONDS = 24 * 3600
NOW = int(time.time())
OFF_MARKET = ("Expired", "Canceled", "Withdrawn", "TempOffMarket", "Sold", "Other")
NOBODY = "00000000-0000-4000-8000-000000000000"
# What a source record says, with the times of its envelope; and identifiers that the source has.
Record = dict[str, Any]
Known = dict[str, str]
Condition = Callable[[Record, Known], bool]


def all_of(*conditions: Condition) -> Condition:
    return lambda record, known: all(condition(record, known) for condition in conditions)


def any_of(*conditions: Condition) -> Condition:
    return lambda record, known: any(condition(record, known) for condition in conditions)


def is_in(member: str, *values: object) -> Condition:
    return lambda record, _: record[member] in values


def at_or_after(member: str, second: int) -> Condition:
    return lambda record, _: record[member] is not None and record[member] >= second


def in_last_week(member: str) -> Condition:
    """The default window begins seven days before the request, to the minute."""
    return lambda record, _: record[member] is not None and record[member] >= (time.time() - WEEK_SECONDS) // 60 * 60


def sold_between(first: int, last: int = NOW + DAY_SECONDS) -> Condition:
    """Sold from the UTC day of one second to that of another; a sale is at the first second of its day."""
    return lambda record, _: first // DAY_SECONDS * DAY_SECONDS <= record["sold"] <= last


def refers_to(known_as: str, *members: str) -> Condition:
    return lambda record, known: known[known_as] in {record[member] for member in members}


def says(known_as: str, member: str) -> Condition:
    return lambda record, known: str(record[member]).lower() == known[known_as].lower()


def days_ago(days: int) -> int:
    return NOW - days * DAY_SECONDS


def everything(_: Record, __: Known) -> bool:
    return True


def nothing(_: Record, __: Known) -> bool:
    return False


on_market = is_in("Status", *ON_MARKET)
coming_soon = is_in("Status", "ComingSoon")
in_use = is_in("deactivated", None)
listed_by = refers_to("agent_uuid", "ListAgentUUID", "SecondaryListAgentUUID")
sold_by = refers_to("buyer_uuid", "ListAgentUUID", "SecondaryListAgentUUID")
bought_by = refers_to("buyer_uuid", "BuyerAgentUUID")
office_sold = refers_to("buyer_office", "ListAgentPlatformOfficeID")
office_bought = refers_to("buyer_office", "BuyerAgentPlatformOfficeID")

ALL = "/listings?market_status=all&updated_since=1"
EVER = "/listings?updated_since=1"
SOLD = "/sold_listings?updated_since=1"
AGENTS = "/agents?updated_since=1"

SELECTED: dict[str, Condition] = {
    "/listings?": all_of(in_last_week("updated"), on_market),
    "/listings?market_status=all": in_last_week("updated"),
    **{
        f"/listings?market_status=all&updated_since={days_ago(days)}": at_or_after("updated", days_ago(days))
        for days in (1, 30, 400)
    },
    f"/listings?market_status=all&updated_since={NOW + DAY_SECONDS}": nothing,
    # The boundary second is returned again.
    "/listings?market_status=all&updated_since={updated}": lambda record, known: (
        record["updated"] >= int(known["updated"])
    ),
    "/listings?market_status=all&updated_since={second_after}": lambda record, known: (
        record["updated"] >= int(known["updated"]) + 1
    ),
    EVER: on_market,
    f"{EVER}&market_status=on-market": on_market,
    f"{EVER}&market_status=off-market": is_in("Status", *OFF_MARKET),
    ALL: everything,
    f"{EVER}&coming_soon=true": coming_soon,
    f"{EVER}&coming_soon=true&market_status=off-market": coming_soon,
    f"{ALL}&coming_soon=1": coming_soon,
    f"{ALL}&coming_soon=false": everything,
    f"{ALL}&property_types=1": is_in("PropertyType", "Residential"),
    f"{ALL}&property_types=1,2,9": is_in("PropertyType", "Residential", "Condo", "Townhouse"),
    f"{ALL}&property_types=10,23": is_in("PropertyType", "Commerical", "Highrise"),
    f"{ALL}&property_types=-1": nothing,
    f"{ALL}&only_agent_created=1": is_in("AgentCreatedListing", True),
    f"{ALL}&only_agent_created=false": everything,
    **{
        f"{ALL}&{reference}": listed_by
        for reference in (
            "agent_uuid={agent_uuid}",
            "agent_uuid={AGENT_UUID}",
            "platform_agent_id={platform_agent_id}",
            "platform_agent_id=summit-crest:{source_agent_id}",
            "platform_agent_id=4200:{source_agent_id}",
            "source_agent_id={source_agent_id}",
        )
    },
    f"{ALL}&agent_uuid={NOBODY}": nothing,
    # Of several references all must hold.
    f"{ALL}&agent_uuid={{agent_uuid}}&source_agent_id={{other_source_agent_id}}": all_of(
        listed_by, refers_to("other_agent_uuid", "ListAgentUUID", "SecondaryListAgentUUID")
    ),
    f"{EVER}&agent_uuid={{agent_uuid}}": all_of(listed_by, on_market),
    f"{ALL}&platform_office_id={{platform_office_id}}": refers_to("platform_office_id", "ListAgentPlatformOfficeID"),
    # The clock of partner data widens `updated_since` and nothing else.
    f"/listings?market_status=all&updated_since={days_ago(1)}&shared_partner_data_updated_since=1": any_of(
        at_or_after("updated", days_ago(1)), at_or_after("partner_data_updated", 1)
    ),
    f"/listings?updated_since={days_ago(1)}&shared_partner_data_updated_since=1": all_of(
        on_market, any_of(at_or_after("updated", days_ago(1)), at_or_after("partner_data_updated", 1))
    ),
    "/sold_listings?": sold_between(NOW - WEEK_SECONDS),
    SOLD: everything,
    f"/sold_listings?updated_since={days_ago(90)}": at_or_after("updated", days_ago(90)),
    **{f"/sold_listings?sold_since={days_ago(days)}": sold_between(days_ago(days)) for days in (3, 60, 300)},
    **{f"/sold_listings?sold_before={days_ago(days)}": sold_between(0, days_ago(days)) for days in (3, 60, 300)},
    f"/sold_listings?sold_since={days_ago(200)}&sold_before={days_ago(100)}": sold_between(
        days_ago(200), days_ago(100)
    ),
    # Both ends are inclusive, to the second: a sale is at midnight.
    "/sold_listings?sold_since={sold}&sold_before={sold}": lambda record, known: record["sold"] == int(known["sold"]),
    "/sold_listings?sold_since={sold}&sold_before={second_before_sold}": nothing,
    f"{SOLD}&property_types=1": is_in("PropertyType", "Residential"),
    f"{SOLD}&property_types=2,9": is_in("PropertyType", "Condo", "Townhouse"),
    **{
        row: condition
        for reference in (
            "agent_uuid={buyer_uuid}",
            "platform_agent_id={buyer_platform_id}",
            "source_agent_id={buyer_source_id}",
        )
        for row, condition in {
            f"{SOLD}&platform_company_id=4200&{reference}": sold_by,
            f"{SOLD}&platform_company_id=4200&{reference}&include_buyer_listings=true": any_of(sold_by, bought_by),
        }.items()
    },
    f"{SOLD}&platform_office_id={{buyer_office}}": office_sold,
    f"{SOLD}&platform_office_id={{buyer_office}}&include_buyer_listings=1": any_of(office_sold, office_bought),
    "/agents?": all_of(in_use, in_last_week("updated")),
    AGENTS: in_use,
    **{
        f"/agents?updated_since={days_ago(days)}": all_of(in_use, at_or_after("updated", days_ago(days)))
        for days in (1, 40, 300)
    },
    "/agents?deactivated=true": in_last_week("deactivated"),
    "/agents?deactivated=true&deactivated_since=1": at_or_after("deactivated", 1),
    "/agents?deactivated=false&updated_since=1": in_use,
    f"/agents?deactivated=true&deactivated_since=1&updated_since={NOW}": nothing,
    f"{AGENTS}&platform_office_id={{platform_office_id}}": all_of(
        in_use, refers_to("platform_office_id", "platform_office_id")
    ),
    f"{AGENTS}&has_company_programs=true": all_of(in_use, lambda record, _: bool(record["company_programs"])),
    f"{AGENTS}&has_company_programs=0": in_use,
    # They find agents whenever these were updated.
    **{
        f"/agents?{name}={{{known_as}}}": all_of(in_use, says(known_as, member))
        for name, known_as, member in (
            ("name", "NAME", "name"),
            ("first_name", "first_name", "first_name"),
            ("last_name", "last_name", "last_name"),
            ("email", "EMAIL", "primary_email_address"),
            ("license", "license", "license"),
        )
    },
    f"/agents?last_name={{last_name}}&updated_since={NOW}": nothing,
    "/agents?mls_agent_id=none": nothing,
    "/agents?license=sample": nothing,
    "/offices?name={OFFICE}": all_of(in_use, says("OFFICE", "name")),
    "/offices?email={office_email}": all_of(in_use, says("office_email", "email")),
    "/offices?": in_use,
    "/offices?deactivated=1": in_last_week("deactivated"),
    "/offices?deactivated=true&deactivated_since=1": at_or_after("deactivated", 1),
    "/teams?": everything,
    "/teams?platform_company_id=summit-crest": everything,
    "/teams?platform_company_id=4200": everything,
    "/companies?": everything,
}


@pytest.fixture(scope="module")
def records(world: World) -> dict[str, list[Record]]:
    """The source records of each resource, with their company and the times of their envelopes in Unix seconds."""
    return {
        resource: [
            {
                **envelope["record"],
                "company": world.company(envelope),
                "source_agent_id": envelope.get("source_agent_id"),
                "updated": unix_time(envelope["updated_at"]),
                "deactivated": _seconds(envelope.get("deactivated_at")),
                "partner_data_updated": _seconds(envelope.get("shared_partner_data_updated_at")),
                "sold": _seconds(envelope["record"].get("SoldDate")),
            }
            for envelope in envelopes
        ]
        for resource, envelopes in world.source.items()
    }


def _seconds(moment: str | None) -> float | None:
    if moment is None:
        return None
    time_of_day = dt.datetime.fromisoformat(moment)
    return (time_of_day if time_of_day.tzinfo else time_of_day.replace(tzinfo=dt.UTC)).timestamp()


@pytest.fixture(scope="module")
def known(records: dict[str, list[Record]]) -> Known:
    """An agent who lists alone and as second, with another of the same listing; one who sold and bought; offices."""
    agents = {agent["agent_uuid"]: agent for agent in records["agents"] if agent["company"] == COMPANY}
    listings = [listing for listing in records["listings"] if listing["company"] == COMPANY]
    first = {listing["ListAgentUUID"] for listing in listings}
    shared = next(listing for listing in listings if listing["SecondaryListAgentUUID"] in first & agents.keys())
    agent, other = agents[shared["SecondaryListAgentUUID"]], agents[shared["ListAgentUUID"]]
    sold = [sale for sale in records["sold_listings"] if sale["company"] == COMPANY]
    sellers = {sale["ListAgentUUID"] for sale in sold}
    buyer = agents[next(sale["BuyerAgentUUID"] for sale in sold if sale["BuyerAgentUUID"] in sellers & agents.keys())]
    offices = {office["platform_office_id"] for office in records["offices"]}
    bought = (sale["BuyerAgentPlatformOfficeID"] for sale in sold)
    updated = int(sorted(listing["updated"] for listing in listings)[len(listings) // 2])
    day = int(sorted(sale["sold"] for sale in sold)[len(sold) // 2])
    return {
        **{name: agent[name] for name in ("agent_uuid", "platform_agent_id", "source_agent_id", "platform_office_id")},
        **{name: agent[name] for name in ("first_name", "last_name", "license")},
        "NAME": agent["name"].upper(),
        "EMAIL": agent["primary_email_address"].upper(),
        "OFFICE": records["offices"][0]["name"].upper(),
        "office_email": records["offices"][0]["email"],
        "AGENT_UUID": agent["agent_uuid"].upper(),
        "other_agent_uuid": other["agent_uuid"],
        "other_source_agent_id": other["source_agent_id"],
        "buyer_uuid": buyer["agent_uuid"],
        "buyer_platform_id": buyer["platform_agent_id"],
        "buyer_source_id": buyer["source_agent_id"],
        "buyer_office": next(office for office in bought if office in offices),
        "updated": str(updated),
        "second_after": str(updated + 1),
        "sold": str(day),
        "second_before_sold": str(day - 1),
    }


def _without_times(row: str) -> str:
    """Return the name of a row: processes that share the tests must name them alike."""
    return re.sub(r"\d{10}", lambda found: f"{round((NOW - int(found[0])) / DAY_SECONDS)} days ago", row)


@pytest.mark.parametrize(("target", "condition"), SELECTED.items(), ids=map(_without_times, SELECTED))
async def test_an_index_holds_exactly_what_its_parameters_select(
    world: World, records: dict[str, list[Record]], known: Known, target: str, condition: Condition
) -> None:
    path, _, query = target.partition("?")
    sent = dict(parse_qsl(query.format(**known))) | {"page_size": "1000"}
    sent |= {"platform_company_id": COMPANY} if path == "/listings" else {}
    candidates = [row for row in records[path[1:]] if "platform_company_id" not in sent or row["company"] == COMPANY]
    selected = [record for record in candidates if condition(record, known)]
    name = IDENTIFIERS[path[1:]]
    found = response_records(await world.answer(path, **sent))
    assert [record[name] for record in found] == sorted(record[name] for record in selected)
    # A row that selects nothing or everything would hold without its parameters too.
    assert 0 < len(selected) < len(candidates) or condition in {everything, nothing}


# The numbers that the contract gives to the types, and what records say.
PROPERTY_TYPES = (
    "-1 Not Found|1 Residential|2 Condo|3 Land|4 Mfghome|5 Farm/Ranch|6 Rental|7 Multifamily|8 Co-op|9 Townhouse|"
    "10 Commerical|11 Business Opportunity|12 Commercial Res Income|13 Commercial Hotel|14 Commercial Mobile Home Park|"
    "15 Commercial Lease|16 Commercial Land|17 Moorage|18 Timeshare|19 Commercial Industrial|20 Multifamily2_4|"
    "21 Multifamily5up|22 Apartment|23 Highrise"
)


async def test_each_number_of_the_legend_selects_its_type(world: World) -> None:
    legend = [entry.split(" ", 1) for entry in PROPERTY_TYPES.split("|")]
    source = world.of("listings", COMPANY)
    for number, name in legend:
        page = await world.answer(ALL, platform_company_id=COMPANY, property_types=number, page_size=1000)
        expected = [envelope["record"] for envelope in source if envelope["record"]["PropertyType"] == name]
        assert len(page["Listings"]) == len(expected), name
        assert {listing["PropertyType"] for listing in page["Listings"]} == {name for _ in expected}


TIME = ("yesterday", "-1", "1.5", "1700000000000", "")
FLAG = ("yes", "2", "on", "")
SIZE = ("0", "1001", "1e2", "-1", "")
COUNT = ("0", "two", "-1")
REFERENCE = ("unknown", "")
TYPES = ("0", "24", "-2", "1,x", "1,,2", "", "1, 2", "one")
LISTINGS_TOO = {
    "updated_since": TIME,
    "property_types": TYPES,
    "underscore_response": FLAG,
    "timestamps_only": FLAG,
    "agent_uuid": ("not-a-uuid", "urn:uuid:3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a", ""),
    "platform_agent_id": (*REFERENCE, "unknown@nowhere.example", "summit-crest:unknown", "x" * 200),
    "source_agent_id": REFERENCE,
    "platform_office_id": (*REFERENCE, "a" * 129),
    "page_size": SIZE,
    "last_platform_listing_id": ("", "a" * 129),
}
PAGES = {"page_number": COUNT, "page_size": SIZE}
# By path: what each parameter does not accept. A parameter that an operation does not have is refused whatever it says.
REFUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "/listings": LISTINGS_TOO
    | {
        "shared_partner_data_updated_since": TIME,
        "market_status": ("onmarket", "ON-MARKET", ""),
        "only_agent_created": FLAG,
        "coming_soon": FLAG,
        "sold_since": ("1",),
        "page_number": ("1",),
    },
    "/sold_listings": LISTINGS_TOO
    | {
        "sold_since": TIME,
        "sold_before": TIME,
        "include_buyer_listings": FLAG,
        "market_status": ("all",),
        "shared_partner_data_updated_since": ("1",),
    },
    "/agents": PAGES
    | {
        "updated_since": TIME,
        "deactivated_since": TIME,
        "deactivated": FLAG,
        "has_company_programs": FLAG,
        "include_access_level": FLAG,
        "include_company_programs": FLAG,
        "include_partners": FLAG,
        "include_website": FLAG,
        "include_reviews": FLAG,
        "include_bio": FLAG,
        "timestamps_only": FLAG,
        "envelope": FLAG,
        "platform_office_id": REFERENCE,
        "include_gci_goals": ("1",),
        "last_name": ("", "x" * 129),
        "email": ("",),
    },
    "/offices": PAGES
    | {"deactivated_since": TIME, "deactivated": FLAG, "timestamps_only": FLAG, "updated_since": ("1",)},
    "/teams": PAGES | {"parent_company_id": ("4100",), "timestamps_only": ("1",)},
    "/companies": PAGES | {"platform_company_id": ("4100",), "parent_company_id": ("4100",)},
    "/listings/{}": {"underscore_response": FLAG, "platform_listing_id": ("another", ""), "timestamps_only": ("1",)},
    "/sold_listings/{}": {
        "platform_listing_id": ("another",),
        "parent_company_id": ("4100",),
        "underscore_response": ("1",),
    },
    "/agents/{}": {
        "include_access_level": FLAG,
        "include_gci_goals": FLAG,
        "include_partners": FLAG,
        "include_reviews": FLAG,
        "include_bio": ("1",),
        "include_website": ("1",),
    },
    "/offices/{}": {"platform_office_id": ("another", "")},
    "/teams/{}": {"parent_company_id": ("4100",), "platform_team_id": ("x",)},
    "/companies/{}": {"platform_company_id": ("4100",), "name": ("x",)},
}


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in REFUSED.items() for name in names])
async def test_a_value_that_is_not_accepted_is_refused_by_name(world: World, path: str, name: str) -> None:
    resource = path.split("/")[1]
    target = path.format(world.of(resource, COMPANY)[0]["record"][IDENTIFIERS[resource]])
    company = {"platform_company_id": COMPANY} if resource.endswith("listings") else {}
    for value in REFUSED[path][name]:
        reply = await world.get(target, **company, **{name: value})
        assert (reply.status, reply.code, reply.parameters) == (400, "invalid-parameter", {name}), value


async def test_all_problems_of_a_request_are_reported_at_once(world: World) -> None:
    reply = await world.get("/listings", market_status="x", property_types="99", page_size="0", updated_sinse="1")
    assert reply.parameters == {"platform_company_id", "market_status", "property_types", "page_size", "updated_sinse"}
    assert any("updated_since" in message for message in reply.body["messages"])
    unknown = dict.fromkeys(("platform_agent_id", "source_agent_id", "platform_office_id"), "nobody")
    assert (await world.get("/listings", platform_company_id=COMPANY, **unknown)).parameters == {*unknown}


async def test_a_source_agent_id_is_accepted_within_a_company_or_a_parent_only(world: World, known: Known) -> None:
    reply = await world.get("/sold_listings", source_agent_id=known["buyer_source_id"])
    assert (reply.status, reply.parameters) == (400, {"source_agent_id"})
