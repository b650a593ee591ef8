"""Names of other APIs are refused with the right ones; `/` says where everything is."""

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from service.resources import OPERATIONS
from tests.service.stand_in import StandIn


@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        ("/v1/agents", "company_id", "Did you mean platform_company_id?"),
        ("/v1/listings?platform_company_id=acme", "company_id", "Did you mean platform_company_id?"),
        ("/v1/agents", "office_id", "Did you mean platform_office_id?"),
        ("/v1/listings?platform_company_id=acme", "agent_id", "Did you mean platform_agent_id?"),
        ("/v1/agents", "_", "cache buster"),
        ("/v1/companies/acme", "_", "cache buster"),
    ],
)
async def test_a_name_of_other_apis_is_refused_with_the_right_one(
    api: TestClient[Any, Any], stand_in: StandIn, path: str, name: str, hint: str
) -> None:
    sent = f"{path}{'&' if '?' in path else '?'}{name}=1732380000"
    response = await api.get(sent, headers={"x-api-key": stand_in.grant()})
    (fault,) = (await response.json())["errors"]
    assert (response.status, fault["parameter"]) == (400, name)
    assert hint in fault["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/"])
async def test_the_roots_name_the_documentation_and_every_collection(api: TestClient[Any, Any], path: str) -> None:
    response = await api.get(path)
    index = await response.json()
    assert (response.status, index["documentation"], index["openapi"]) == (200, "/docs", "/v1/openapi.json")
    assert {f"/v1{operation.path}" for operation in OPERATIONS if "{" not in operation.path} < {*index["resources"]}
    for named in index["resources"]:
        assert (await api.get(named)).status == 401
    assert (await api.get(index["openapi"])).status == 200
