"""What schemathesis makes up from the served document, before a service process of its own on real data.

`make fuzz` sends at least 20,000 requests and prints what came of them.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from cluster.connection import ConnectionSettings, connect
from service.keys.store import KeyGrant, KeyStore
from service.services import SERVICES
from tests.brokerage.conftest import running
from tests.contract.world import PARENT, World
from tests.openapi.schemathesis_run import FuzzFindings, FuzzRun, fetch_document
from tests.waiting import until

# Half of the values of these exist: what is made up alone would hardly reach Elasticsearch.
_KNOWN = {
    "platform_listing_id": ("listings", "PlatformListingId"),
    "last_platform_listing_id": ("listings", "PlatformListingId"),
    "guid": ("agents", "agent_uuid"),
    "agent_uuid": ("agents", "agent_uuid"),
    "platform_agent_id": ("agents", "platform_agent_id"),
    "platform_office_id": ("offices", "platform_office_id"),
    "platform_team_id": ("teams", "uuid"),
    "platform_company_id": ("companies", "platform_company_id"),
}
_EACH = 8
# A busy machine must not fail the test: no timeouts, no load shedding.
_PATIENT = {
    "BROKERAGE_DEADLINE_SECONDS": "120",
    "BROKERAGE_QUEUE_SECONDS": "60",
    "BROKERAGE_OUTAGE_SECONDS": "600",
    "BROKERAGE_FAILURES_PER_MINUTE": "0",  # wrong keys are among what is made up: each is to be answered 401
    "BROKERAGE_REFUSALS_PER_MINUTE": "0",
}


@pytest.fixture
async def findings(world: World, amount: Callable[[int, int], int]) -> FuzzFindings:
    """What came of all requests."""
    connection = world.http.app[SERVICES].connection
    known = {name: _values(world, *where) for name, where in _KNOWN.items()}
    known["platform_company_id"] += [world.numeric(company) for company in world.children()]
    known["parent_company_id"] = [PARENT]
    environment = {"ELASTICSEARCH_URL": connection.url[0], "BROKERAGE_INDEX_PREFIX": connection.prefix, **_PATIENT}
    with running("serve", "--port", "0", environment=environment) as service:
        [origin] = re.findall(r"(http://\S+)/v1", await asyncio.to_thread(service.read_until, "Ctrl-C stops"))
        fuzz = FuzzRun(origin, await _unlimited(connection), known, amount(12, 1_000), boundaries=bool(amount(0, 1)))
        await until(lambda: fetch_document(origin) is not None)
        return await asyncio.to_thread(lambda: fuzz.run(fetch_document(origin) or {}))


def _values(world: World, resource: str, name: str) -> list[Any]:
    return [envelope["record"][name] for envelope in world.of(resource)[:_EACH]]


async def _unlimited(connection: ConnectionSettings) -> str:
    async with connect(connection, connections=1, timeout=30) as client:
        grant = KeyGrant("fuzz", all_companies=True, rate=None)
        return (await KeyStore(client, connection.keys_index).create(grant)).reveal()


async def test_nothing_that_is_made_up_breaks_the_service_or_the_document(
    findings: FuzzFindings, amount: Callable[[int, int], int]
) -> None:
    print(findings.summary())
    assert findings.errors == []
    assert findings.failures == {}
    assert findings.server_errors == 0
    assert findings.requests >= amount(200, 20_000)
    # Both kinds came: what the service takes, and what it must refuse.
    assert min(findings.statuses[200], findings.statuses[400]) > findings.requests // 10
