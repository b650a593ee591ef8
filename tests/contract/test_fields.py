"""Every variant's records against the contract's field tables, key by key and type by type."""

import json
import re
from typing import Any

import pytest

from mappings import AGENT, RESOURCES
from mappings.fields import View, underscore
from tests.contract.parse_spec import FIXTURE
from tests.contract.world import IDENTIFIERS, World, response_records
from tests.mappings.test_fields import EXTENSIONS

TABLES: dict[str, dict[str, dict[str, str]]] = json.loads(FIXTURE.read_text(encoding="utf-8"))

_PYTHON: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_SOLD_LACKS = {
    "StatusChangeDate",
    "SharedPartnerData",
    "NewConstructionYN",
    "BuyerCommissionType",
    "BuyerCommissionValue",
    "VendorModificationTimestamp",
}
_SHOW_LACKS = _SOLD_LACKS - {"SharedPartnerData"}
# Members of OpenHouse that the table of untyped fields names too.
_OPEN_HOUSE = {"VirtualOpenHouseURL", "Comment"}
SOLD_OPEN_HOUSE_LACKS = {"VirtualOpenHouseYN", *_OPEN_HOUSE}
GOALS = {"gci_goal": "integer", "buyer_commission_rate": "number", "seller_commission_rate": "number"}


def _listing_fields() -> dict[str, str]:
    table = TABLES["Listing"]
    return {name: kind for name, kind in (table["fields"] | table["untyped"]).items() if name not in _OPEN_HOUSE}


_VIEWS = {resource.alias: (resource, View.INDEX) for resource in RESOURCES} | {
    underscore(resource.name): (resource, View.SHOW) for resource in RESOURCES
}


def fields(variant: str) -> dict[str, str]:
    """Return the fields of a variant: those of the contract with their cells, and the extensions of its resource."""
    resource, view = _VIEWS[variant]
    shown = {field.name for field in resource.view(view)}
    extensions = EXTENSIONS.get(resource.name, {})
    return _contract_fields(variant) | {name: kind for name, kind in extensions.items() if name in shown}


def _contract_fields(variant: str) -> dict[str, str]:
    if variant == "listings":
        return _listing_fields()
    if variant == "listing":
        return _without(_listing_fields(), _SHOW_LACKS)
    sold = _without(_listing_fields(), _SOLD_LACKS) | TABLES["SoldListing"]["fields"]
    if variant == "sold_listings":
        return sold
    if variant == "sold_listing":
        return _without(sold, {"ListingURL"})
    resource = {"agent": "Agent", "office": "Office", "team": "Team", "compan": "Company"}[
        re.sub("(ies|y|s)$", "", variant)
    ]
    return TABLES[resource]["fields"] | TABLES[resource]["untyped"]


def _without(fields: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: kind for name, kind in fields.items() if name not in names}


# What an index needs to return all of its records with all members.
_WIDE: dict[str, dict[str, str]] = {
    "sold_listings": {"updated_since": "1"},
    "agents": {"updated_since": "1", **dict.fromkeys(AGENT.flags[View.INDEX], "true")},
}
_SHOWN = 25


async def _records(world: World, variant: str) -> list[dict[str, Any]]:
    """Return all records of an index, or some of them by their shows."""
    if variant == "listings":
        wide = {"market_status": "all", "updated_since": 1, "page_size": 1000}
        companies = [world.company(envelope) for envelope in world.source["companies"]]
        pages = [await world.answer("/listings", platform_company_id=company, **wide) for company in companies]
        return [record for page in pages for record in page["Listings"]]
    if variant in IDENTIFIERS:
        return response_records(await world.answer(f"/{variant}", page_size=1000, **_WIDE.get(variant, {})))
    index = _VIEWS[variant][0].alias
    flags = AGENT.flags[View.SHOW].keys() - {"include_gci_goals"} if variant == "agent" else ()
    return [
        await world.answer(f"/{index}/{envelope['record'][IDENTIFIERS[index]]}", **dict.fromkeys(flags, "true"))
        for envelope in world.of(index)[:_SHOWN]
    ]


@pytest.mark.parametrize("variant", _VIEWS)
async def test_records_are_those_of_the_source_with_the_fields_and_types_of_the_contract(
    world: World, variant: str
) -> None:
    expected, index = fields(variant), _VIEWS[variant][0].alias
    source = {envelope["record"][IDENTIFIERS[index]]: envelope["record"] for envelope in world.of(index)}
    records = await _records(world, variant)
    assert records
    for record in records:
        assert record == {name: source[record[IDENTIFIERS[index]]][name] for name in expected}
        for name, cell in expected.items():
            _check(record[name], cell, name)


def _check(value: Any, cell: str, name: str) -> None:
    word = cell.split(maxsplit=1)[0].rstrip(":;,")
    if value is None:
        assert word != "array", f"{name} is an array and must be empty, not null"
    elif word in _PYTHON:
        assert isinstance(value, _PYTHON[word]), f"{name} is {value!r}, not {word}"
        assert word == "boolean" or not isinstance(value, bool), f"{name} is a boolean, not {word}"
    if isinstance(value, (dict, list)) and "`" in cell:
        _check_members(value, cell, name)


def _check_members(value: Any, cell: str, name: str) -> None:
    members = members_of(cell)
    for element in value if isinstance(value, list) else [value]:
        # A sold listing's open houses lack the members that the cell gives to non-sold ones.
        assert set(element) in ({*members}, members - SOLD_OPEN_HOUSE_LACKS), f"{name}: {set(element)}"
        for member, inner in element.items():
            assert isinstance(inner, _member_types(cell, member)), f"{name}.{member} is {inner!r}"


def members_of(cell: str) -> set[str]:
    """Return the members that a cell of the tables gives to an object."""
    return set(re.findall(r"`(\w+)`", cell))


def _member_types(cell: str, member: str) -> tuple[type, ...]:
    if member in {"IsMainListingImage", "VirtualOpenHouseYN", "is_nrt"}:
        return (bool, type(None))
    if member in {"Width", "Height"}:
        return (int, type(None))
    if member == "PropertyFeatureValues":
        return (list,)
    if re.search(rf"`{member}`(, `\w+`)* untyped", cell):
        return (object,)
    return (str, type(None))
