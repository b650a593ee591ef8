"""Generated identifiers: unique, unsorted, and everything that is referred to is there and of the same company."""

import itertools
import re
import uuid
from collections import Counter
from typing import Any

import pytest

from mappings import RESOURCES
from sample.ingredients import SampleClock
from sample.staff import SampleStaff
from tests.sample.conftest import Source


def owners(source: Source, alias: str, identifier: str) -> dict[str, str]:
    """Return the company of each record by one of its identifiers, which must be unique."""
    found = {envelope["record"][identifier]: envelope["platform_company_id"] for envelope in source[alias]}
    assert len(found) == len(source[alias])
    return found


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_identifiers_are_unique(source: Source, resource: Any) -> None:
    identifiers = [envelope["record"][resource.identifier] for envelope in source[resource.alias]]
    assert len(set(identifiers)) == len(identifiers)


def test_listing_identifiers_are_lower_case_uuids_in_no_order(source: Source) -> None:
    identifiers = [envelope["record"]["PlatformListingId"] for envelope in source["listings"]]
    assert all(str(uuid.UUID(identifier)) == identifier for identifier in identifiers)
    assert {uuid.UUID(identifier).version for identifier in identifiers} == {4}
    rising = sum(first < second for first, second in itertools.pairwise(identifiers))
    assert 0.4 < rising / len(identifiers) < 0.6


def test_listings_and_sold_listings_share_no_identifier(source: Source) -> None:
    listings, sold = (owners(source, alias, "PlatformListingId") for alias in ("listings", "sold_listings"))
    assert not set(listings) & set(sold)


@pytest.mark.parametrize("alias", ["listings", "sold_listings"])
def test_the_listing_side_is_of_the_listings_company(source: Source, alias: str) -> None:
    agents, offices = owners(source, "agents", "agent_uuid"), owners(source, "offices", "platform_office_id")
    for envelope in source[alias]:
        company, record = envelope["platform_company_id"], envelope["record"]
        assert agents[record["ListAgentUUID"]] == company
        assert offices[record["ListAgentPlatformOfficeID"]] == company
        assert record["SecondaryListAgentUUID"] is None or agents[record["SecondaryListAgentUUID"]] == company


def test_a_listing_names_the_office_of_its_agent(source: Source) -> None:
    agents = {envelope["record"]["agent_uuid"]: envelope["record"] for envelope in source["agents"]}
    for envelope in source["listings"]:
        record = envelope["record"]
        agent = agents[record["ListAgentUUID"]]
        assert record["ListAgentPlatformOfficeID"] == agent["platform_office_id"]
        assert record["ListAgentOfficeID"] == str(agent["office_id"])
        assert record["SecondaryListAgentUUID"] != record["ListAgentUUID"]


def test_on_market_listings_have_working_agents(source: Source) -> None:
    gone = {envelope["record"]["agent_uuid"] for envelope in source["agents"] if "deactivated_at" in envelope}
    on_market = [envelope["record"] for envelope in source["listings"] if envelope["record"]["OnMarket"]]
    assert not gone & {record["ListAgentUUID"] for record in on_market}


def test_the_buyers_side_is_known_and_often_the_same_company(source: Source) -> None:
    agents, offices = owners(source, "agents", "agent_uuid"), owners(source, "offices", "platform_office_id")
    represented = [envelope for envelope in source["sold_listings"] if envelope["record"]["BuyerAgentUUID"]]
    buyers = [(envelope, agents[envelope["record"]["BuyerAgentUUID"]]) for envelope in represented]
    assert len(source["sold_listings"]) > len(buyers)
    assert {offices[envelope["record"]["BuyerAgentPlatformOfficeID"]] == company for envelope, company in buyers} == {
        True
    }
    assert {envelope["platform_company_id"] == company for envelope, company in buyers} == {True, False}


def test_agents_name_offices_and_teams_of_their_company(source: Source) -> None:
    offices, teams = owners(source, "offices", "platform_office_id"), owners(source, "teams", "uuid")
    for envelope in source["agents"]:
        company, record = envelope["platform_company_id"], envelope["record"]
        assert offices[record["platform_office_id"]] == company
        assert all(teams[team["uuid"]] == company for team in record["teams"])
    assert any(envelope["record"]["teams"] for envelope in source["agents"])


def test_agent_identifiers_are_email_like_and_unique(source: Source) -> None:
    for identifier in owners(source, "agents", "platform_agent_id"):
        assert re.fullmatch(r"[a-z]+\.[a-z]+\.\d{4,}@[a-z-]+\.example\.com", identifier)


def test_source_agent_ids_are_unique_in_a_company_and_repeated_among_siblings(source: Source) -> None:
    pairs = [(envelope["platform_company_id"], envelope["source_agent_id"]) for envelope in source["agents"]]
    children = [
        company["record"]["platform_company_id"] for company in source["companies"] if "parent_company_id" in company
    ]
    assert len(set(pairs)) == len(pairs)
    assert sum((child, "1001") in pairs for child in children) >= 2
    repeated = Counter(identifier for _, identifier in pairs)
    assert {identifier for identifier, count in repeated.items() if count > 1} == {"1001"}


def test_working_agents_sit_in_all_open_offices_and_in_no_closed_one() -> None:
    cast = SampleStaff(40_000, 7, SampleClock.at(None))
    taken = {agent.office.platform_office_id for agent in cast.agents if agent.deactivated is None}
    still_open = {office.platform_office_id for office in cast.offices if office.deactivated is None}
    assert taken == still_open
    assert len(still_open) < len(cast.offices)


def test_one_parent_has_at_least_three_children_and_others_are_independent(source: Source) -> None:
    companies = {company["record"]["platform_company_id"]: company for company in source["companies"]}
    parents = [company["parent_company_id"] for company in companies.values() if "parent_company_id" in company]
    assert len(set(parents)) == 1
    assert len(parents) >= 3
    assert set(parents) <= set(companies)
    assert len(companies) - len(parents) - 1 >= 3


def test_company_keys_and_numbers_cannot_be_mistaken_for_each_other(source: Source) -> None:
    keys = {company["record"]["platform_company_id"] for company in source["companies"]}
    numbers = [company["record"]["numeric_id"] for company in source["companies"]]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", key) for key in keys)
    assert all(number.isdecimal() for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert not keys & set(numbers)


def test_one_company_has_three_fifths_of_the_listings(source: Source) -> None:
    owned = [envelope["platform_company_id"] for envelope in source["listings"]]
    assert max(owned.count(key) for key in set(owned)) / len(owned) == pytest.approx(0.6, abs=0.03)


def test_all_addresses_on_the_internet_and_telephone_numbers_are_reserved_ones(source: Source) -> None:
    text = str(source)
    hosts = set(re.findall(r"(?:https://|@)([a-z0-9.-]+)", text))
    assert hosts
    assert all(host.endswith(("example.com", "example.org")) for host in hosts)
    numbers = set(re.findall(r"\(\d{3}\) \d{3}-\d{4}", text))
    assert numbers
    assert all(re.fullmatch(r"\(\d{3}\) 555-01\d\d", number) for number in numbers)


def test_every_company_says_that_it_is_generated(source: Source) -> None:
    assert all(company["record"]["name"].endswith("(generated)") for company in source["companies"])
