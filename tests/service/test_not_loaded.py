"""Snapshot and digest of a resource that was never loaded are refused with a code of their own."""

import pytest

from tests.service.conftest import Open
from tests.service.stand_in import StandIn


@pytest.mark.parametrize("operation", ["snapshot", "digest"])
@pytest.mark.parametrize(("resource", "title"), [("teams", "team"), ("sold_listings", "sold listing")])
async def test_what_has_no_data_says_so(
    open_api: Open, stand_in: StandIn, operation: str, resource: str, title: str
) -> None:
    for index in [name for name, facts in stand_in.indices.items() if resource in facts["aliases"]]:
        del stand_in.indices[index]
    headers = {"x-api-key": stand_in.grant()}
    api = await open_api()
    response = await api.get(f"/v1/{operation}/{resource}", headers=headers)
    problem = await response.json()
    assert (response.status, problem["code"]) == (503, "not-loaded")
    assert problem["detail"] == f"No {title} data has been loaded yet. Try again later."
    assert response.headers["Retry-After"] == "60"
