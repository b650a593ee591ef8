"""Generated records keep the contract: every field, in its order, with values of its type and spelling."""

from typing import Any

import msgspec
import pytest

from mappings import LISTING, RESOURCES, SOLD_LISTING, Resource
from mappings.fields import Field, FieldKind
from mappings.listing import ON_MARKET_STATUSES, PROPERTY_TYPES, STATUSES
from mappings.record_schema import record_type
from tests.mappings.test_fields import EXTENSIONS
from tests.sample.conftest import Source

every_resource = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)


def records(source: Source, resource: Resource) -> list[dict[str, Any]]:
    """Return the records of a resource; a source without any would make every test of them pass."""
    found = [envelope["record"] for envelope in source[resource.alias]]
    assert found
    return found


@every_resource
def test_a_record_has_every_field_in_the_contracts_order(source: Source, resource: Resource) -> None:
    expected = [field.name for field in resource.stored]
    assert all(list(record) == expected for record in records(source, resource))


@every_resource
def test_nested_members_come_in_the_contracts_order_too(source: Source, resource: Resource) -> None:
    nested = [field for field in resource.stored if field.members]
    for field in nested:
        expected = [member.name for member in field.members]
        found = [member for record in records(source, resource) for member in members(record[field.name])]
        assert found, f"no record has {field.name}"
        assert all(list(member) == expected for member in found)


def members(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a nested field, be it one, several or none."""
    return value if isinstance(value, list) else [value] if value else []


@every_resource
def test_a_record_passes_the_check_of_the_indexer(source: Source, resource: Resource) -> None:
    checked = [msgspec.convert(record, record_type(resource)) for record in records(source, resource)]
    assert len(checked) == len(source[resource.alias])


@every_resource
def test_integers_are_whole_and_absent_lists_are_empty(source: Source, resource: Resource) -> None:
    for record in records(source, resource):
        assert [field.name for field in resource.stored if not is_well_formed(field, record[field.name])] == []


def is_well_formed(field: Field, value: Any) -> bool:
    """Whether the value is what the field's kind promises beyond what the record type checks."""
    if field.kind in {FieldKind.INTEGER, FieldKind.UNIX}:
        return value is None or type(value) is int
    return not field.kind.is_list or isinstance(value, list)


@every_resource
def test_every_field_with_a_type_has_a_value_somewhere(source: Source, resource: Resource) -> None:
    typed = {field.name for field in resource.stored if field.kind is not FieldKind.UNTYPED}
    filled = {name for record in records(source, resource) for name, value in record.items() if value not in (None, [])}
    never = {
        *EXTENSIONS.get(resource.name, {}),
        "social_network_account_id",
        "client_auths",
        "alternate_offices",
        "fax",
        "address2",
    }
    assert typed - filled <= never


@every_resource
def test_an_envelope_has_the_members_that_apply_to_its_resource(source: Source, resource: Resource) -> None:
    scope = set() if resource.alias == "companies" else {"platform_company_id"}
    required = {"updated_at", "record"} | scope
    for envelope in source[resource.alias]:
        assert required <= set(envelope) <= required | resource.envelope_members
        assert None not in envelope.values()


def test_every_optional_envelope_member_occurs(source: Source) -> None:
    seen = {name for envelopes in source.values() for envelope in envelopes for name in envelope}
    expected = {name for resource in RESOURCES for name in resource.envelope_members}
    assert expected <= seen


def test_statuses_are_spelt_as_decided_and_carry_their_market_side(source: Source) -> None:
    listings = records(source, LISTING)
    assert {record["Status"] for record in listings} == set(STATUSES) - {"Other"}
    for record in listings:
        on_market = record["Status"] in ON_MARKET_STATUSES
        assert record["OnMarket"] is on_market
        assert (record["StatusChangeDate"] is not None) is on_market


def test_the_shares_of_the_statuses_are_those_of_the_story(source: Source) -> None:
    listings = records(source, LISTING)
    expected = {"Active": 0.62, "Pending": 0.14, "Contingent": 0.06, "ComingSoon": 0.04}
    for status, share in expected.items():
        assert sum(record["Status"] == status for record in listings) / len(listings) == pytest.approx(share, abs=0.03)


def test_property_types_are_names_of_the_legend_with_their_numbers(source: Source) -> None:
    pairs = {(envelope["property_type_id"], envelope["record"]["PropertyType"]) for envelope in source["listings"]}
    assert pairs <= set(PROPERTY_TYPES.items())
    assert len(pairs) >= 18
    assert {record["PropertyType"] for record in records(source, SOLD_LISTING)} == {"Residential", "Townhouse"}


def test_some_listings_were_created_by_agents(source: Source) -> None:
    listings = records(source, LISTING)
    assert 0.01 < sum(record["AgentCreatedListing"] for record in listings) / len(listings) < 0.035


def test_a_listing_has_a_realistic_size(source: Source) -> None:
    sizes = [len(msgspec.json.encode(record)) for record in records(source, LISTING)[:1000]]
    assert 5000 < sum(sizes) / len(sizes) < 7000


def test_a_listing_has_six_to_fourteen_images_of_which_the_first_is_the_main_one(source: Source) -> None:
    galleries = [record["ListingImages"] for record in records(source, LISTING)]
    assert {len(gallery) for gallery in galleries} == set(range(6, 15))
    for gallery in galleries:
        assert [image["IsMainListingImage"] for image in gallery] == [True] + [False] * (len(gallery) - 1)
