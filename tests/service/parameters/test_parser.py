"""From a query string to values, or to one refusal that names every fault."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import make_mocked_request

from service.errors import InvalidRequest
from service.parameters import parse_query, unknown_parameters
from service.resources import OPERATIONS
from service.resources.operations import AgentsParameters, CompanyParameters, ListingsParameters

Query = list[tuple[str, str]]

COMPANY = ("platform_company_id", "acme")


async def values(query: Query, *, tolerate_unknown: bool = False) -> dict[str, Any]:
    """Return what a query of the listings index is read as."""
    request = make_mocked_request("GET", f"/v1/listings?{urlencode(query)}")
    return await parse_query(request, ListingsParameters(), tolerate_unknown=tolerate_unknown)


async def faults(query: Query, *, tolerate_unknown: bool = False) -> dict[str, str]:
    """Return the message for each parameter that is refused."""
    with pytest.raises(InvalidRequest) as caught:
        await values(query, tolerate_unknown=tolerate_unknown)
    assert caught.value.detail == " ".join(f"{fault.parameter}: {fault.message}" for fault in caught.value.faults)
    return {fault.parameter: fault.message for fault in caught.value.faults}


async def test_every_parameter_has_a_value_sent_or_not() -> None:
    read = await values([COMPANY, ("page_size", "7"), ("property_types", "2,1")])
    assert read["platform_company_id"] == "acme"
    assert (read["page_size"], read["property_types"]) == (7, [1, 2])
    assert (read["market_status"], read["coming_soon"], read["updated_since"]) == ("on-market", False, None)
    assert read.keys() == ListingsParameters().fields.keys()


async def test_a_value_is_read_as_it_was_encoded() -> None:
    assert (await values([("platform_company_id", "a&b=c+d e%20ü")]))["platform_company_id"] == "a&b=c+d e%20ü"


async def test_a_required_parameter_that_is_missing_is_named() -> None:
    assert await faults([]) == {"platform_company_id": "is required."}


async def test_a_parameter_without_value_is_refused() -> None:
    assert set(await faults([COMPANY, ("updated_since", "")])) == {"updated_since"}


@pytest.mark.parametrize("second", ["acme", "other"])
async def test_a_repeated_parameter_is_refused(second: str) -> None:
    assert await faults([COMPANY, ("platform_company_id", second)]) == {
        "platform_company_id": "is given more than once."
    }


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("updated_sinc", "updated_since"),
        ("Market_Status", "market_status"),
        ("plattform_company_id", "platform_company_id"),
    ],
)
async def test_an_unknown_parameter_is_refused_with_the_nearest_known_one(name: str, nearest: str) -> None:
    hint = f"is not a parameter of this operation. Did you mean {nearest}?"
    assert await faults([COMPANY, (name, "1")]) == {name: hint}


async def test_an_unknown_parameter_near_to_none_is_refused_with_all_known_ones() -> None:
    message = (await faults([COMPANY, ("q", "1")]))["q"]
    assert all(name in message for name in ListingsParameters().fields)


async def test_all_faults_are_reported_at_once() -> None:
    query = [("updated_since", "x"), ("page_size", "0"), ("page_size", "0"), ("q", "1"), ("coming_soon", "yes")]
    assert set(await faults(query)) == {"platform_company_id", "updated_since", "page_size", "q", "coming_soon"}


async def test_unknown_parameters_may_be_tolerated_but_faults_are_not() -> None:
    assert "q" not in await values([COMPANY, ("q", "1")], tolerate_unknown=True)
    assert set(await faults([COMPANY, ("q", "1"), ("page_size", "0")], tolerate_unknown=True)) == {"page_size"}


async def test_the_key_is_not_a_parameter_of_an_operation() -> None:
    assert "api-key" not in await values([COMPANY, ("api-key", "bk_x")])


def test_unknown_names_are_listed_once_in_order() -> None:
    request = make_mocked_request("GET", "/v1/companies/acme?b=1&a=1&b=2&api-key=x")
    assert unknown_parameters(request, CompanyParameters()) == ["b", "a"]


async def test_an_operation_without_parameters_refuses_any() -> None:
    request = make_mocked_request("GET", "/v1/companies/acme?platform_company_id=acme")
    message = "platform_company_id: is not a parameter of this operation. It takes no parameters."
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        await parse_query(request, CompanyParameters(), tolerate_unknown=False)


def test_only_the_listings_index_requires_a_parameter() -> None:
    required = {
        (operation.path, name)
        for operation in OPERATIONS
        for name, field in operation.schema.fields.items()
        if field.required
    }
    assert required == {("/listings", "platform_company_id")}


def test_the_agents_index_has_the_flags_of_the_decisions() -> None:
    flags = {
        name for name in AgentsParameters().fields if name.startswith(("include_", "has_")) or name == "deactivated"
    }
    assert flags == {"deactivated", "has_company_programs"} | {
        f"include_{block}" for block in ("access_level", "company_programs", "partners", "website", "reviews", "bio")
    }
