"""Headers of numbered pages name pages that can be read, however many records there are."""

import re
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from yarl import URL

from mappings import AGENT
from mappings.indices import MAX_RESULT_WINDOW
from service.search.pages import NumberedPage
from tests.service.conftest import Open
from tests.service.stand_in import Reply, StandIn, search_response

PATHS = ("/v1/agents", "/v1/offices", "/v1/teams", "/v1/companies")
TOTAL = 500_000


@pytest.fixture
async def large(open_api: Open, stand_in: StandIn) -> TestClient[Any, Any]:
    """A service with 500,000 records of each kind."""
    return await _large(open_api, stand_in)


async def _large(open_api: Open, stand_in: StandIn, **settings: Any) -> TestClient[Any, Any]:
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.grant()
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0, **settings)
    headers = {"x-api-key": stand_in.keys[0]}
    assert (await api.get("/v1/companies", headers=headers)).status == 200
    many = search_response().replace(b'"value":0', b'"value":%d' % TOTAL)
    for path in PATHS:
        stand_in.out(Reply(body=many), path.rpartition("/")[2])
    api.session.headers.update(headers)
    return api


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("size", "number"), [(20, 1), (20, 4999), (20, 5000), (300, 333), (1000, 100)])
async def test_every_page_that_headers_name_can_be_read(
    large: TestClient[Any, Any], path: str, method: str, size: int, number: int
) -> None:
    url = URL(path).with_query(page_size=size, page_number=number)
    response = await large.request(method, url)
    assert response.status == 200
    last = int(response.headers["X-Total-Pages"])
    assert (last, response.headers["X-Total-Count"]) == (MAX_RESULT_WINDOW // size, str(TOTAL))
    assert ("next" in response.links) is (number < last)
    for relation in ("first", "prev", "next", "last"):
        if relation in response.links:
            assert (await large.head(URL(response.links[relation]["url"]).relative())).status == 200
    assert (await large.get(URL(path).with_query(page_size=size, page_number=last + 1))).status == 400


@pytest.mark.parametrize("path", PATHS)
async def test_deep_readers_are_led_to_the_snapshot(large: TestClient[Any, Any], path: str) -> None:
    name = path.rpartition("/")[2]
    response = await large.get(f"{path}?page_number=1&page_size=20")
    assert URL(response.links["alternate"]["url"]).relative() == URL(f"/v1/snapshot/{name}")
    assert response.headers["Warning"] == (
        '299 - "Numbered pages end after 100000 of 500000 records: use the snapshot."'
    )
    refused = await large.get(f"{path}?page_number=5001&page_size=20")
    assert refused.status == 400
    assert f"/snapshot/{name} returns all records" in (await refused.json())["detail"]


async def test_without_snapshots_deep_readers_are_led_nowhere(open_api: Open, stand_in: StandIn) -> None:
    api = await _large(open_api, stand_in, without=("changes",))
    response = await api.get("/v1/offices?page_number=1&page_size=20")
    assert "alternate" not in response.links
    assert response.headers["Warning"] == '299 - "Numbered pages end after 100000 of 500000 records."'
    refused = await api.get("/v1/offices?page_number=5001&page_size=20")
    assert (refused.status, "snapshot" in await refused.text()) == (400, False)


async def test_the_link_to_the_snapshot_keeps_the_scope_and_no_key(large: TestClient[Any, Any]) -> None:
    key = large.session.headers.pop("x-api-key")
    response = await large.get(f"/v1/agents?platform_company_id=acme&updated_since=1&api-key={key}")
    link = response.headers["Link"]
    assert re.findall(r'<([^>]*)>; rel="alternate"', link) == ["/v1/snapshot/agents?platform_company_id=acme"]
    assert key not in link


async def test_the_page_body_counts_the_same_pages(large: TestClient[Any, Any]) -> None:
    for path in ("/v1/offices?page_size=20", "/v1/agents?page_size=20&envelope=true"):
        assert (await (await large.get(path)).json())["total_pages"] == 5000


async def test_records_within_reach_need_no_warning(large: TestClient[Any, Any], stand_in: StandIn) -> None:
    exactly = search_response().replace(b'"value":0', b'"value":%d' % MAX_RESULT_WINDOW)
    stand_in.out(Reply(body=exactly), "agents")
    response = await large.get("/v1/agents?page_size=1000")
    assert response.headers["X-Total-Pages"] == "100"
    assert "Warning" not in response.headers
    assert "alternate" not in response.links


@pytest.mark.parametrize(
    ("total", "last"), [(0, 1), (1, 1), (300, 1), (301, 2), (99_900, 333), (99_901, 333), (500_000, 333)]
)
def test_the_last_page_is_the_one_with_the_last_record_that_can_be_read(total: int, last: int) -> None:
    assert NumberedPage(AGENT, (), 1, 300, total).total_pages == last
