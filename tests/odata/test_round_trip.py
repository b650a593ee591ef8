"""Our own RESO Web API, replicated into an empty index: every field that it serves, every photo and open house."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from indexer.reporting.report import ignore_progress
from indexer.reso.replication import open_replication
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import ReplicationPlan
from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from mappings.data_dictionary import load_dictionary
from mappings.listing import PROPERTY_TYPES, TIME_ZONE
from mappings.open_houses import instants_of
from tests.contract.world import World
from tests.indexer.conftest import Bench
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

Records = dict[str, dict[str, Any]]

_COMPANY = "summit-crest"
# Decision 51 lists what RESO's Web API has no place for, and what it has in another form.
_NOT_CARRIED = {
    LISTING: {
        "BuyerCommissionType",
        "BuyerCommissionValue",
        "CompanyListingAttributes",
        "SharedPartnerData",
        "VendorModificationTimestamp",
    },
    SOLD_LISTING: {"CompanyListingAttributes"},
    AGENT: {
        *("platform_agent_id", "client_id_2", "mls_abbreviation", "available_mls", "office_id", "company_id"),
        *("client_company_id", "secondary_email_address", "email_addresses", "has_product_access"),
        *("has_engage_access", "access_level", "view_level", "home_page", "region", "agent_website"),
        *("source_metadata", "service_area_zip_codes", "website_base_url", "gci_goal", "buyer_commission_rate"),
        *("seller_commission_rate", "company_programs", "partners", "user_reviews", "profile_visible_online"),
    },
    OFFICE: {
        "client_office_id",
        "common_name",
        "timezone",
        "office_website",
        "region",
        "alt_phone",
        "company_programs",
    },
    TEAM: {"website_url", "alt_email"},
}
_FEATURES = load_dictionary().entities["Property"].features
_TYPES = {PROPERTY_TYPES[number] for number in load_dictionary().entities["Property"].type.values()}


def _comparable(record: dict[str, Any], resource: Resource) -> dict[str, Any]:
    """Return what must be equal: without order where there is none, and with the same day or number in one form."""
    kept = {
        name: value for name, value in record.items() if name not in _NOT_CARRIED[resource] and value not in ("", [])
    }
    if resource not in {LISTING, SOLD_LISTING}:
        return kept
    features = {row["PropertyFeatureName"]: row["PropertyFeatureValues"] for row in record["PropertyFeatures"]}
    kept["PropertyFeatures"] = {name: values for name, values in features.items() if name in _FEATURES}
    kept["OpenHouse"] = sorted(record["OpenHouse"], key=lambda item: sorted(map(str, item.values())))
    kept["StatusChangeDate"] = (record.get("StatusChangeDate") or "")[:10]
    kept |= {name: record[name] and float(record[name]) for name in ("Latitude", "Longitude")}
    return kept | {"PropertyType": record["PropertyType"] if record["PropertyType"] in _TYPES else "Not Found"}


async def _copied(bench: Bench, resource: Resource) -> Records:
    alias, live = bench.connection.alias(resource), {"term": {"deleted": False}}
    found = await bench.client.search(index=alias, size=10_000, query=live)
    return {hit["_id"]: hit["_source"]["record"] for hit in found["hits"]["hits"]}


async def _served_instants(world: World) -> dict[str, set[str]]:
    """Return when the open houses of our own API are, by listing."""
    client = ODataClient(world.http.session, str(world.http.make_url("")), world.keys)
    found = defaultdict(set)
    for row in await client.walk("OpenHouse", "large", MAX_PAGE_SIZE_PREFERENCE):
        found[str(row["ListingKey"])].add(f"{row['OpenHouseStartTime']} {row['OpenHouseEndTime']}")
    return dict(found)


async def _copied_instants(bench: Bench) -> dict[str, set[str]]:
    found = defaultdict(set)
    for resource in (LISTING, SOLD_LISTING):
        hits = await bench.client.search(index=bench.connection.alias(resource), size=10_000)
        for document in (hit["_source"] for hit in hits["hits"]["hits"]):
            for house in document.get("record", {}).get("OpenHouse", ()):
                start, end = instants_of(house, document.get(TIME_ZONE))
                found[document["id"]].add(f"{start and start.isoformat()} {end and end.isoformat()}")
    return dict(found)


def _expected(world: World) -> dict[Resource, Records]:
    records: dict[Resource, Records] = {
        resource: {row["record"][resource.identifier]: row["record"] for row in world.of(resource.alias, _COMPANY)}
        for resource in _NOT_CARRIED
    }
    # RESO knows no listing that is sold and still on the market: it is a sold listing at its reader.
    sold = {name for name, record in records[LISTING].items() if record["Status"] == "Sold"}
    return records | {LISTING: {name: record for name, record in records[LISTING].items() if name not in sold}}


async def test_our_own_records_come_back_from_a_replication(world: World, bench: Bench, tmp_path: Path) -> None:
    company = {"platform_company_id": _COMPANY, "name": "Summit Crest", "numeric_id": "4200"}
    plan = ReplicationPlan(str(world.http.make_url("/v1/reso")), _COMPANY, load_dictionary(), company)
    settings = ResoSettings(rate=1000.0, page_size=300, folder=str(tmp_path), token=world.keys["large"])
    notes: list[str] = []
    async with open_replication(bench.engine(), plan, settings, ignore_progress, notes.append) as rounds:
        result = await rounds.run_round()
    assert not result.summary.problems
    assert not result.summary.missing
    assert await _copied_instants(bench) == await _served_instants(world) != {}
    compared = 0
    for resource, records in _expected(world).items():
        copied = await _copied(bench, resource)
        assert records.keys() <= copied.keys()
        for name, record in records.items():
            expected, found = _comparable(record, resource), _comparable(copied[name], resource)
            assert {member: found.get(member) for member in expected} == expected
            compared += sum(value is not None for value in expected.values())
        images = sum(len(record.get("ListingImages", [])) for record in records.values())
        assert images == sum(len(copied[name].get("ListingImages", [])) for name in records)
    assert compared > 20_000
