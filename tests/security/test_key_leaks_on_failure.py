"""The same key where Elasticsearch fails, is slow or is overrun: nothing of it is answered, logged or counted."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import ClientError, ClientTimeout
from aiohttp.test_utils import TestClient
from prometheus_client import REGISTRY, generate_latest
from pytest_aiohttp.plugin import AiohttpClient

from service.telemetry.metrics import create_metrics_app
from tests.security.canary import CanaryKey
from tests.security.test_redaction import written
from tests.service.api_client import services_of
from tests.service.conftest import DEADLINES_SECONDS, Open
from tests.service.stand_in import HeldReply, Reply, StandIn, refusal, search_response

# What Elasticsearch, or another server in its place, may send; `{key}` is repeated as from a query.
_FAILURES: dict[str, Reply] = {
    "refused": Reply(status=400, body=b'{"error":{"type":"parsing_exception","reason":"no {key}"},"status":400}'),
    "forbidden": Reply(status=403, body=b'{"error":{"type":"security_exception","reason":"{key}"},"status":403}'),
    "missing": Reply(status=404, body=b'{"error":{"type":"index_not_found_exception","reason":"{key}"},"status":404}'),
    "rejected": refusal(429, "es_rejected_execution_exception"),
    "timeout": refusal(429, "search_timeout_exception"),
    "unavailable": Reply(status=503, body=b'{"error":{"type":"x","reason":"{key}"}}'),
    "proxy": Reply(status=502, body=b"<html>{key}</html>", content_type="text/html", headers={}),
    "unintelligible": Reply(body=b"{key}"),
    "partial": Reply(body=search_response(failed=1)),
    "another server": Reply(body=b'{"key":"{key}"}', headers={}),
}
# Where the key is sent besides the header.
_TARGETS = (
    "/v1/listings?platform_company_id=acme&api-key={key}",
    "/v1/listings?platform_company_id=acme&last_platform_listing_id={key}",
    "/v1/listings?platform_company_id=acme&agent_uuid=0b0e6d3c-5f0d-4f35-9d3c-111111111111&platform_agent_id={key}",
    "/v1/listings/{key}",
    "/v1/agents/{key}",
    "/v1/sold_listings?updated_since=1&api-key={key}",
)


@pytest.fixture
def canary(stand_in: StandIn) -> CanaryKey:
    """A key for the one company that there is."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    return CanaryKey(stand_in.grant())


async def _drive(api: TestClient[Any, Any], canary: CanaryKey) -> list[tuple[int, str]]:
    """Ask for every target and return the statuses and texts of the answers."""

    async def ask(target: str) -> tuple[int, str]:
        answer = await api.get(target.format(key=canary.key), headers={"x-api-key": canary.key})
        return answer.status, f"{answer.headers} {await answer.text()}"

    return await asyncio.gather(*map(ask, _TARGETS))


@pytest.mark.parametrize("failure", _FAILURES)
@pytest.mark.parametrize("of", ["searches", "keys", "everything"])
async def test_a_failure_of_elasticsearch_reveals_nothing(
    open_api: Open, stand_in: StandIn, canary: CanaryKey, failure: str, of: str
) -> None:
    api, reply = await open_api(deadline_seconds=5.0), _FAILURES[failure]
    said = Reply(
        status=reply.status,
        body=reply.body.replace(b"{key}", canary.key.encode()),
        content_type=reply.content_type,
        headers=reply.headers,
    )
    indices = {"searches": ("listings", "agents", "sold_listings"), "keys": ("api_keys",)}
    stand_in.out(said, *indices.get(of, ()))
    with written(is_masked=True) as output:
        answers = await _drive(api, canary)
    # Where the keys alone are away the last set of them serves on.
    assert {status for status, _ in answers} <= {200, 400, 401, 404, 500, 503, 504}
    assert [text for _, text in answers if canary.found_in(text)] == []
    assert canary.found_in(output.getvalue()) == []


async def test_a_deadline_an_overload_and_clients_that_leave_reveal_nothing(
    open_api: Open, stand_in: StandIn, canary: CanaryKey
) -> None:
    stand_in.out(HeldReply(), "listings", "agents", "sold_listings")
    answers: list[tuple[int, str]] = []
    with written(is_masked=True) as output:
        for seconds in DEADLINES_SECONDS:
            api = await open_api(deadline_seconds=seconds, concurrency=1, queue=1, show_concurrency=1)
            for driven in await asyncio.gather(*(_drive(api, canary) for _ in range(4))):
                answers += driven
            if {status for status, _ in answers} >= {503, 504}:
                break
        for target in _TARGETS:
            with suppress(TimeoutError, ClientError):
                headers = {"x-api-key": canary.key}
                await api.get(target.format(key=canary.key), headers=headers, timeout=ClientTimeout(total=0.05))
    assert {status for status, _ in answers} >= {503, 504}
    assert [text for _, text in answers if canary.found_in(text)] == []
    assert canary.found_in(output.getvalue()) == []


async def test_links_and_warnings_repeat_no_key_from_another_parameter(
    open_api: Open, stand_in: StandIn, canary: CanaryKey
) -> None:
    api = await open_api(tolerate_unknown=True)
    for identifier in ("L1", "L2"):
        stand_in.add("listings", identifier, {"PlatformListingId": identifier})
    sent = {"platform_company_id": "acme", "page_size": "1", "API-Key": canary.key, canary.key: "1", "q": canary.key}
    answer = await api.get("/v1/listings", params=sent, headers={"x-api-key": canary.key})
    assert (answer.status, 'rel="next"' in answer.headers["Link"]) == (200, True)
    assert canary.found_in(str(answer.headers) + await answer.text()) == []


async def test_no_metric_has_a_label_that_a_client_chooses(
    open_api: Open, aiohttp_client: AiohttpClient, stand_in: StandIn, canary: CanaryKey
) -> None:
    api = await open_api()
    stand_in.add("listings", canary.key, {"PlatformListingId": canary.key})
    await _drive(api, canary)
    metrics = await aiohttp_client(create_metrics_app(services_of(api)))
    exposed = await (await metrics.get("/metrics", params={"api-key": canary.key})).text()
    assert 'path="/listings/{platform_listing_id}"' in exposed
    assert canary.found_in(exposed + generate_latest(REGISTRY).decode()) == []
