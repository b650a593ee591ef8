"""Whether an encoded record refuses to be shown, wherever the switch is and whatever else the record holds."""

from typing import Any

import orjson
import pytest

from mappings import LISTING, SOLD_LISTING, Resource
from mappings.visibility import ADDRESS_MEMBERS, ADDRESS_SWITCH, LISTING_SWITCH, refuses

_SWITCHES = (LISTING_SWITCH, ADDRESS_SWITCH)


@pytest.mark.parametrize("switch", _SWITCHES)
@pytest.mark.parametrize(
    "before",
    [
        {},
        {"PublicRemarks": "x" * 10_000},
        {"PublicRemarks": f'"{ADDRESS_SWITCH}":false,"{LISTING_SWITCH}":false'},
        {"PublicRemarks": "{}"},
        {"Address2": {ADDRESS_SWITCH: True, LISTING_SWITCH: True}},
        {"Address2": {ADDRESS_SWITCH: False, LISTING_SWITCH: False}},
        {"PublicRemarks": "x" * 4_060},
    ],
)
@pytest.mark.parametrize("value", [True, False, None])
def test_only_false_refuses(switch: str, before: dict[str, Any], value: bool | None) -> None:
    record = orjson.dumps({**before, switch: value, "ListPrice": False})
    assert refuses(record, switch) is (value is False)
    assert refuses(memoryview(record), switch) is (value is False)


@pytest.mark.parametrize("switch", _SWITCHES)
def test_an_absent_switch_allows(switch: str) -> None:
    assert not refuses(b'{"ListPrice":1}', switch)
    assert not refuses(b"{}", switch)
    assert not refuses(orjson.dumps({"Address2": {switch: False}}), switch)


@pytest.mark.parametrize("resource", [LISTING, SOLD_LISTING])
def test_every_member_of_an_address_is_one_of_the_record(resource: Resource) -> None:
    assert {*ADDRESS_MEMBERS, *_SWITCHES} <= {field.name for field in resource.stored}


def test_the_address_is_where_a_property_lies_and_what_leads_there() -> None:
    """Written out once more, so that leaving one out is seen: the parcel number is in any county's register."""
    assert sorted(ADDRESS_MEMBERS) == [
        "Address",
        "Address2",
        "City",
        "Community",
        "CountyOrParish",
        "Latitude",
        "Longitude",
        "PostalCode",
        "StateOrProvince",
        "TaxParcelId",
    ]
