"""The time of each layer of a request: sent to the client if enabled, and summed for the metrics."""

import re
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from prometheus_client.parser import text_string_to_metric_families
from pytest_aiohttp.plugin import AiohttpClient

from service.telemetry.metrics import create_metrics_app
from service.telemetry.observation import Layer, Timer, TimingTotals
from tests.internals import Clock, Internals
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.stand_in import StandIn, hit

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"
REPORTED_LAYERS = ["auth", "turn", "query", "elasticsearch", "splice", "encode"]
PART = re.compile(r"([a-z]+);dur=(\d+\.\d{3})")


@pytest.fixture
def key(stand_in: StandIn) -> dict[str, str]:
    """The header with a key for all companies, of which there is one, with one listing of one agent."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L-secret", {"PlatformListingId": "L-secret"})
    return {"x-api-key": stand_in.grant()}


def test_timer_of_one_layer_add_up_in_the_order_of_the_first(internals: Internals) -> None:
    internals(observation_time=Clock(step=1.0))
    timer = Timer()
    for layer in (Layer.AUTH, Layer.QUERY, Layer.ELASTICSEARCH, Layer.QUERY, Layer.ELASTICSEARCH, Layer.SPLICE):
        timer.record(layer)
    assert timer.header() == "auth;dur=1000.000, query;dur=2000.000, elasticsearch;dur=2000.000, splice;dur=1000.000"
    ledger = TimingTotals()
    for _ in range(3):
        ledger.add("/listings", timer)
    rows = {(path, str(layer)): (spent.count, spent.seconds) for path, layer, spent in ledger.rows()}
    assert rows["/listings", "elasticsearch"] == (3, 6.0)
    assert rows["/listings", "auth"] == (3, 3.0)


async def test_the_client_sees_timings_only_if_enabled(open_api: Open, key: dict[str, str]) -> None:
    silent, reporting = await open_api(), await open_api(server_timing=True)
    assert "Server-Timing" not in (await silent.get(FEED, headers=key)).headers
    for path in (FEED, "/v1/listings/L-secret", "/v1/companies"):
        parts = (await reporting.get(path, headers=key)).headers["Server-Timing"].split(", ")
        assert [PART.fullmatch(part)[1] for part in parts] == REPORTED_LAYERS  # type: ignore[index]


async def test_several_searches_are_reported_as_one_layer(
    open_api: Open, stand_in: StandIn, key: dict[str, str]
) -> None:
    stand_in.hits["agents"] = [hit("agents", "a1", b"{}")[:-1] + b',"matched_queries":["platform_agent_id"]}']
    api = await open_api(server_timing=True)
    response = await api.get(f"{FEED}&platform_agent_id=a1", headers=key)
    assert [path for path, _ in stand_in.asked if path.endswith("s/_search") and "companies" not in path] == [
        "/agents/_search",
        "/listings/_search",
    ]
    assert [part.partition(";")[0] for part in response.headers["Server-Timing"].split(", ")] == REPORTED_LAYERS


async def samples(metrics: TestClient[Any, Any]) -> dict[tuple[str, ...], float]:
    """Return the samples of `/metrics` by name and label values, in the order of the label names."""
    response = await metrics.get("/metrics")
    assert (response.status, response.content_type) == (200, "text/plain")
    families = text_string_to_metric_families(await response.text())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


async def test_the_metrics_sum_layers_and_count_what_should_not_be(
    api: TestClient[Any, Any], stand_in: StandIn, key: dict[str, str], aiohttp_client: AiohttpClient
) -> None:
    metrics = await aiohttp_client(create_metrics_app(services_of(api)))
    before = await samples(metrics)
    for path in (FEED, FEED, "/v1/listings/L-secret"):
        assert (await api.get(path, headers=key)).status == 200
    stand_in.hits["listings"] = [hit("listings", "L2", b'{"record":{"PlatformListingId":"L2"}}')]
    assert (await api.get(FEED, headers=key)).status == 200
    after = await samples(metrics)
    for layer in (*REPORTED_LAYERS, "write"):
        assert after["brokerage_layer_seconds_count", layer, "/listings"] == 3
        assert after["brokerage_layer_seconds_count", layer, "/listings/{platform_listing_id}"] == 1
        assert after["brokerage_layer_seconds_sum", layer, "/listings"] > 0
    unmarked = ("brokerage_unmarked_answers_total",)
    assert after[unmarked] == before[unmarked] + 1
    assert ("brokerage_shared_searches_total",) in after


async def test_no_key_and_no_identifier_is_in_the_metrics(
    api: TestClient[Any, Any], key: dict[str, str], aiohttp_client: AiohttpClient
) -> None:
    metrics = await aiohttp_client(create_metrics_app(services_of(api)))
    for path in (FEED, "/v1/listings/L-secret?platform_company_id=acme", "/v1/companies/acme", "/v1/nothing/L-secret"):
        await api.get(path, headers=key)
        await api.get(f"{path}{'&' if '?' in path else '?'}api-key={key['x-api-key']}")
    text = await (await metrics.get("/metrics")).text()
    assert "/listings/{platform_listing_id}" in text
    assert [secret for secret in ("L-secret", "acme", key["x-api-key"][:13], "127.0.0.1") if secret in text] == []


async def test_the_metrics_are_not_on_the_port_of_the_api(api: TestClient[Any, Any], key: dict[str, str]) -> None:
    for path in ("/metrics", "/v1/metrics"):
        assert (await api.get(path, headers=key)).status == 404
