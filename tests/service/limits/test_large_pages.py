"""Large pages have slots of their own, a quarter of those of all pages: what a worker makes at a time is bounded."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from service.limits.admission import AdmissionControl, ConcurrencyLimit, RequestKind
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.stand_in import StandIn
from tests.waiting import until

SMALL = "/v1/listings?platform_company_id=acme&updated_since=1&page_size=250"
LARGE = (
    "/v1/listings?platform_company_id=acme&updated_since={}&page_size=251",
    "/v1/agents?platform_company_id=acme&updated_since={}&page_size=1000",
    "/v1/reso/Property?$top=1000&$filter=ListingId%20ne%20%27{}%27",
)


def limit(api: TestClient[Any, Any], kind: RequestKind) -> ConcurrencyLimit:
    """Return a limit of the service."""
    admission: AdmissionControl = services_of(api).limits.admission
    return admission.limits[kind]


@pytest.mark.parametrize("path", LARGE)
async def test_large_pages_leave_the_slots_of_others(open_api: Open, stand_in: StandIn, path: str) -> None:
    stand_in.add("companies", "acme", {}, numeric_id="1")
    headers = {"x-api-key": stand_in.grant()}
    api = await open_api(concurrency=4, queue_seconds=3600.0, key_concurrency=0, deadline_seconds=60.0)
    large, pages = limit(api, RequestKind.LARGE_PAGE), limit(api, RequestKind.PAGE)
    async with large.slot("another key"):
        asking = [asyncio.create_task(api.get(path.format(number), headers=headers)) for number in range(1, 9)]
        await until(lambda: (large.running, large.waiting, pages.running) == (1, 8, 0))
        assert (await api.get(SMALL, headers=headers)).status == 200
        asking.pop().cancel()
        await until(lambda: large.waiting == 7)
    assert {response.status for response in await asyncio.gather(*asking)} == {200}
    assert (large.running, large.waiting, pages.running) == (0, 0, 0)


async def test_a_large_page_is_served_and_refused_as_any_other(open_api: Open, stand_in: StandIn) -> None:
    stand_in.add("companies", "acme", {}, numeric_id="1")
    headers = {"x-api-key": stand_in.grant()}
    api = await open_api(concurrency=4, queue=0, queue_seconds=3600.0)
    large = limit(api, RequestKind.LARGE_PAGE)
    assert (await api.get(LARGE[0].format(1), headers=headers)).status == 200
    async with large.slot("another key"):
        response = await api.get(LARGE[0].format(2), headers=headers)
        assert (response.status, (await response.json())["code"]) == (503, "overloaded")
    assert (large.running, limit(api, RequestKind.PAGE).running) == (0, 0)
