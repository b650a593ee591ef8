"""The fields of every variant against the tables of the contract's text (`tests/contract/fields.json`)."""

import json
import re
from pathlib import Path

import pytest

from mappings import AGENT, LISTING, RESOURCES, SOLD_LISTING, Resource
from mappings.fields import Field, FieldKind, View
from mappings.search_fields import FieldOrigin

Kinds = dict[str, str]

CONTRACT = json.loads((Path(__file__).parent.parent / "contract" / "fields.json").read_text(encoding="utf-8"))

# What the table's own words say of a variant (spec, Listing).
INDEX_ONLY = {
    "StatusChangeDate",
    "NewConstructionYN",
    "BuyerCommissionType",
    "BuyerCommissionValue",
    "VendorModificationTimestamp",
}
NOT_SOLD = {*INDEX_ONLY, "SharedPartnerData"}
NOT_SOLD_MEMBERS = {"VirtualOpenHouseYN", "VirtualOpenHouseURL", "Comment"}
MEMBERS_ONLY = {"VirtualOpenHouseURL", "Comment"}  # declared untyped next to the table, shown within OpenHouse
# By the name of a resource: fields that we serve beyond the contract, with their JSON types. A new field goes here.
EXTENSIONS: dict[str, Kinds] = {}
GOALS = {"gci_goal", "buyer_commission_rate", "seller_commission_rate"}  # decisions, agent show flags

# The members that the cells list; only OpenHouse differs between variants.
MEMBERS: dict[str, Kinds] = {
    "SharedPartnerData": {"attribute_1": "string", "attribute_2": "string"},
    "PropertyFeatures": {"PropertyFeatureName": "string", "PropertyFeatureValues": "array of string"},
    "CompanyListingAttributes": {"AttributeId": "string", "AttributeName": "string"},
    "OpenHouse": {"Date": "string", "StartTime": "string", "EndTime": "string"}
    | {"VirtualOpenHouseYN": "boolean", "VirtualOpenHouseURL": "untyped", "Comment": "untyped"},
    "ListingImages": dict.fromkeys(("FullURL", "GalleryURL", "RawURL", "SmallURL", "ThumbURL"), "string")
    | dict.fromkeys(("Title", "Caption", "Description", "MimeType"), "string")
    | {"IsMainListingImage": "boolean", "Width": "integer", "Height": "integer"},
    "available_mls": dict.fromkeys(("name", "display_name", "mls_abbreviation"), "string") | {"agent_id": "untyped"},
    "email_addresses": dict.fromkeys(("primary", "display", "alternate", "platform_sync"), "string")
    | {"portal": "untyped", "lead_routing": "untyped"},
    "agent_website": {"base_url": "untyped", "bio_page_slug": "untyped"},
    "source_metadata": {"identifier_source": "string", "identifier_type": "string", "identifier_key": "untyped"},
    "public_partner_attrs": {"is_nrt": "boolean"},
}

JSON_TYPES = {
    FieldKind.DATE: "string",
    FieldKind.DATE_TIME: "string",
    FieldKind.STRING: "string",
    FieldKind.UNIX: "integer",
}
JSON_TYPES |= {
    FieldKind.STRINGS: "array of string",
    FieldKind.OBJECTS: "array of objects",
    FieldKind.UNTYPED_LIST: "array",
}


def table(resource: Resource, view: View) -> Kinds:
    """Return the contract's fields of a variant with their type cells, and the extensions of the resource."""
    if resource.name not in CONTRACT:
        return declared(resource.view(view))
    extensions = EXTENSIONS.get(resource.name, {})
    shown = {field.name for field in resource.view(view)}
    return _contract(resource, view) | {name: kind for name, kind in extensions.items() if name in shown}


def _contract(resource: Resource, view: View) -> Kinds:
    if resource is SOLD_LISTING:
        fields = {name: cell for name, cell in whole("Listing").items() if name not in NOT_SOLD} | whole("SoldListing")
        return {name: cell for name, cell in fields.items() if name != "ListingURL" or view is View.INDEX}
    fields = whole(resource.name)
    if resource is LISTING and view is View.SHOW:
        return {name: cell for name, cell in fields.items() if name not in INDEX_ONLY}
    return fields


def whole(name: str) -> Kinds:
    """Return every field of a table, and those that the text next to it declares untyped."""
    given: Kinds = CONTRACT[name]["fields"] | CONTRACT[name]["untyped"]
    return {field: cell for field, cell in given.items() if field not in MEMBERS_ONLY or name != "Listing"}


def json_type(cell: str) -> str:
    """Return the JSON type that a cell of the table states."""
    if cell.startswith(("untyped", "null")):
        return "untyped"
    match = re.match(r"array of objects|array of string|\w+", cell)
    assert match is not None
    return match[0]


def declared(fields: tuple[Field, ...]) -> Kinds:
    """Return declared fields with the JSON type they carry."""
    return {field.name: JSON_TYPES.get(field.kind, field.kind.value) for field in fields}


VARIANTS = [(resource, view) for resource in RESOURCES for view in View]
_variants = pytest.mark.parametrize(("resource", "view"), VARIANTS, ids=lambda part: getattr(part, "alias", part))


@_variants
def test_a_variant_has_the_fields_of_the_contract_with_their_types(resource: Resource, view: View) -> None:
    expected = {name: json_type(cell) for name, cell in table(resource, view).items()}
    fields = declared(resource.view(view))
    if resource is AGENT and view is View.SHOW:
        assert {fields.pop(name) for name in GOALS} == {"integer", "number"}
    assert fields == expected


@_variants
def test_nested_objects_have_the_members_of_the_contract_with_their_types(resource: Resource, view: View) -> None:
    for field in resource.view(view):
        if resource.name not in CONTRACT or field.name in EXTENSIONS.get(resource.name, {}):
            continue
        expected = MEMBERS.get(field.name, {}) if field.kind in {FieldKind.OBJECT, FieldKind.OBJECTS} else {}
        if resource is SOLD_LISTING and field.name == "OpenHouse":
            expected = {name: kind for name, kind in expected.items() if name not in NOT_SOLD_MEMBERS}
        assert (field.name, declared(field.members)) == (field.name, expected)


def test_the_members_listed_here_are_those_that_the_cells_name() -> None:
    cells = {name: cell for resource in CONTRACT.values() for name, cell in resource["fields"].items()}
    named = {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in cells.items() if "object" in json_type(cell)}
    assert {name: set(expected) for name, expected in MEMBERS.items()} == named


def test_agent_blocks_are_returned_on_request_only() -> None:
    index = {flag: {field.name for field in fields} for flag, fields in AGENT.flags[View.INDEX].items()}
    show = {flag: {field.name for field in fields} for flag, fields in AGENT.flags[View.SHOW].items()}
    both = {
        "include_access_level": {"access_level", "view_level"},
        "include_partners": {"partners"},
        "include_reviews": {"user_reviews"},
    }
    assert show == both | {"include_gci_goals": GOALS}
    assert index == both | {
        "include_company_programs": {"company_programs"},
        "include_website": {"website_base_url"},
        "include_bio": {"bio"},
    }


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_a_stored_record_has_every_member_of_every_variant_once(resource: Resource) -> None:
    stored = [field.name for field in resource.stored]
    assert sorted(stored) == sorted({field.name for view in View for field in resource.view(view)})


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_a_stored_record_begins_with_the_index_variant_in_its_order(resource: Resource) -> None:
    index = resource.view(View.INDEX)
    assert resource.stored[: len(index)] == index


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_search_fields_read_members_that_exist(resource: Resource) -> None:
    names = {field.name for field in resource.fields}
    for field in resource.indexed_fields:
        if field.origin is FieldOrigin.RECORD:
            assert set(field.sources) <= names
    assert {resource.identifier, *resource.timestamps} <= names
