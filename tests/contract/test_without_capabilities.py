"""The contract does not miss what BROKERAGE_WITHOUT leaves out: all capabilities at once, and each of them alone."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from service.app import create_app
from service.capabilities import CAPABILITIES
from tests.contract.world import IDENTIFIERS, World
from tests.service_settings import service_settings

ROOT = Path(__file__).parents[2]
_COMPANY = "platform_company_id=summit-crest"
# Paths below /v1 with `{}` for an identifier that exists, its resource, and the status.
_REQUESTS = [
    *((f"/{path}?{_COMPANY}&page_size=3&updated_since=0", "", 200) for path in ("listings", "sold_listings")),
    (f"/agents?{_COMPANY}&page_size=3&updated_since=0", "", 200),
    (f"/offices?{_COMPANY}&page_size=3", "", 200),
    (f"/listings?{_COMPANY}&timestamps_only=true&updated_since=0&page_size=3", "", 200),
    (f"/listings?{_COMPANY}&underscore_response=true&page_size=2&market_status=all", "", 200),
    ("/teams", "", 200),
    ("/companies", "", 200),
    ("/listings/{}", "listings", 200),
    ("/sold_listings/{}", "sold_listings", 200),
    ("/agents/{}", "agents", 200),
    ("/offices/{}", "offices", 200),
    ("/teams/{}", "teams", 200),
    ("/companies/{}", "companies", 200),
    ("/listings", "", 400),
    ("/listings?platform_company_id=nowhere", "", 400),
    (f"/listings?{_COMPANY}&page_sice=2", "", 400),
    ("/listings/none", "", 404),
    ("/nothing", "", 404),
]
# Headers that differ between two responses to the same request.
_OWN = {"date", "x-request-id"}


async def test_the_contract_is_whole_without_all_of_them(engine_url: str) -> None:
    """The tests of this folder but those that need a capability (`_NEEDS`) pass; a minute."""
    options = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--ignore", "tests/contract/test_search_profiles.py")
    command = (sys.executable, "-m", "pytest", *options, "tests/contract")
    environment = {**os.environ, "ELASTICSEARCH_URL": engine_url, "BROKERAGE_WITHOUT": "all"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-4000:]


@pytest.mark.parametrize("name", CAPABILITIES)
async def test_without_one_of_them_responses_are_the_same(name: str, world: World) -> None:
    everything, without = [
        create_app(service_settings(deadline_seconds=300.0, refusals_per_minute=0, without=left), world.connection)
        for left in ((), (name,))
    ]
    async with TestClient(TestServer(everything)) as whole, TestClient(TestServer(without)) as part:
        for path, resource, status in _REQUESTS:
            identifier = world.source[resource][0]["record"][IDENTIFIERS[resource]] if resource else ""
            for method in ("GET", "HEAD"):
                target = f"/v1{path.format(identifier)}"
                here, there = [await _answer(http, method, target, world, name) for http in (whole, part)]
                assert here == there, (method, target)
                assert here[0] == status, (method, target)
            headers = {"If-None-Match": str(here[1].get("etag"))}
            here, there = [await _answer(http, "GET", target, world, name, headers) for http in (whole, part)]
            assert here == there, ("304", target)


async def _answer(
    http: TestClient[Any, Any], method: str, target: str, world: World, name: str, headers: Mapping[str, str] = {}
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body, without what is of one response alone."""
    given = {"x-api-key": world.keys["all"], "Accept-Encoding": "identity", **headers}
    async with http.request(method, target, headers=given) as response:
        body = await response.read()
        request_id = response.headers["X-Request-Id"].encode()
        # Listings depend on `Accept` as long as there is GeoJSON.
        own = _OWN | ({"vary"} if name == "geojson" else set())
        shown = {key.lower(): value for key, value in response.headers.items() if key.lower() not in own}
        return response.status, shown, body.replace(request_id, b"")
