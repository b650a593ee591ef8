"""What `/metrics` reports of requests, Elasticsearch, the loop and the index; the labels are bounded."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession

from cluster.control_index import mark_id, troubles_id
from mappings import LISTING, RESOURCES
from service.app import API_ROOT
from service.resources import OPERATIONS
from service.telemetry.observation import Histogram
from tests.internals import let_be_silent
from tests.service.raw_http import exchange, request
from tests.service.stand_in import HeldReply, Reply, StandIn, refusal
from tests.telemetry.conftest import FEED, SHOW, Watched
from tests.waiting import until

LISTINGS = "/v1/listings"
OWN = ("/", "/livez", "/readyz", "/startupz", "/v1", "/v1/openapi.json")


def test_a_value_is_counted_up_to_the_first_bound_that_it_does_not_pass() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        histogram.add(value)
    assert histogram.buckets() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert histogram.sum == pytest.approx(3.65)


async def test_requests_are_counted_by_route_status_and_tier(watched: Watched, stand_in: StandIn, key: str) -> None:
    plain, elsewhere = stand_in.grant(), stand_in.grant(tier="silver")
    asked = [(FEED, key), (FEED, key), (FEED, plain), (FEED, elsewhere), (FEED, None), (SHOW, key), ("/nothing", key)]
    for path, sent in asked:
        await watched.get(path, sent)
    assert await watched.samples("brokerage_requests") == {
        ("brokerage_requests_total", LISTINGS, "200", "gold"): 2,
        # A tier that the settings do not know is none.
        ("brokerage_requests_total", LISTINGS, "200", "none"): 2,
        ("brokerage_requests_total", LISTINGS, "401", "none"): 1,
        ("brokerage_requests_total", "/v1/listings/{platform_listing_id}", "200", "gold"): 1,
        ("brokerage_requests_total", "none", "404", "none"): 1,
    }
    seconds = await watched.samples("brokerage_request_seconds")
    assert seconds["brokerage_request_seconds_count", LISTINGS, "2xx"] == 4
    assert seconds["brokerage_request_seconds_count", LISTINGS, "4xx"] == 1
    assert seconds["brokerage_request_seconds_sum", LISTINGS, "2xx"] > 0


async def test_rows_and_bytes_are_those_that_were_sent(watched: Watched, stand_in: StandIn, key: str) -> None:
    for number in range(2, 40):
        stand_in.add("listings", f"L-{number}", {"PlatformListingId": f"L-{number}"})
    url = f"http://127.0.0.1:{watched.port}{FEED}"
    async with ClientSession(headers={"x-api-key": key}, auto_decompress=False) as client:
        async with client.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
            body, tag = await answer.read(), answer.headers["ETag"]
        assert gzip.decompress(body).count(b"PlatformListingId") == 39
        await (await client.head(url)).read()
        async with client.get(url, headers={"Accept-Encoding": "gzip", "If-None-Match": tag}) as answer:
            assert answer.status == 304
    assert await watched.samples("brokerage_answer_rows") == {("brokerage_answer_rows_total", LISTINGS): 39}
    assert await watched.samples("brokerage_answer_bytes") == {("brokerage_answer_bytes_total", LISTINGS): len(body)}


async def test_features_are_counted_as_records(watched: Watched, stand_in: StandIn, key: str) -> None:
    stand_in.add("listings", "L-2", {"PlatformListingId": "L-2"})
    headers = {"x-api-key": key, "Accept": "application/geo+json"}
    async with ClientSession(f"http://127.0.0.1:{watched.port}", headers=headers) as client:
        for path in (FEED, SHOW):
            async with client.get(path) as answer:
                assert answer.content_type == "application/geo+json"
                await answer.read()
    assert await watched.samples("brokerage_answer_rows") == {
        ("brokerage_answer_rows_total", LISTINGS): 2,
        ("brokerage_answer_rows_total", "/v1/listings/{platform_listing_id}"): 1,
    }


async def test_nothing_that_a_client_sends_becomes_a_label(watched: Watched, key: str) -> None:
    hostile = [
        "/v1/listings/../../etc",
        f"/v1/{key}",
        "/v1//listings//",
        "/v1/agents/%F0%9F%92%A9",
        "//",
        "/v1/nothing?a=b",
    ]
    hostile += [f"/made/up/{number}" for number in range(20)] + [f"/v1/listings/L{number}" for number in range(20)]
    await watched.get(FEED, key)
    for path in hostile:
        for method in ("GET", "HEAD", "OPTIONS", "POST", "BREW", "bk_x"):
            await exchange(watched.port, request(path, method, {"x-api-key": key, "X-Forwarded-For": "6.6.6.6"}))
    for line in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        await exchange(watched.port, line)
    routes = {API_ROOT + operation.path for operation in OPERATIONS} | {*OWN, "none"}
    families = (await watched.families()).values()
    reported = [sample for family in families for sample in family.samples if sample.name.startswith("brokerage_")]
    found: dict[str, set[str]] = {}
    for sample in reported:
        for name, value in sample.labels.items():
            found.setdefault(name, set()).add(value)
    assert found["route"] <= routes
    assert found["tier"] == {"none", "gold"}
    assert found["status"] <= {"200", "204", "400", "404", "405", "414"}
    assert found["status_class"] <= {"2xx", "4xx", "none"}
    assert found["path"] <= {operation.path for operation in OPERATIONS}


async def test_what_is_refused_below_the_application_is_counted(watched: Watched) -> None:
    await exchange(watched.port, b"nonsense\r\n\r\n")
    assert await watched.samples("brokerage_requests") == {("brokerage_requests_total", "none", "400", "none"): 1}


async def test_who_leaves_before_the_answer_is_counted_as_having_left(
    watched: Watched, stand_in: StandIn, key: str
) -> None:
    held = HeldReply()
    stand_in.out(held, "listings")
    await watched.left(FEED, key, stand_in)
    assert await watched.samples("brokerage_requests") == {("brokerage_requests_total", LISTINGS, "499", "gold"): 1}
    held.release.set()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [(Reply(), "2xx"), (refusal(429, "es_rejected_execution_exception"), "4xx"), (refusal(503, "x"), "5xx")],
    ids=["answered", "rejected", "unavailable"],
)
async def test_requests_to_elasticsearch_are_timed_by_how_they_ended(
    watched: Watched, stand_in: StandIn, key: str, reply: Reply, expected: str
) -> None:
    stand_in.out(reply, "listings")
    name = ("brokerage_elasticsearch_request_seconds_count", expected)
    await watched.get(FEED, key)
    before = (await watched.samples("brokerage_elasticsearch_request_seconds"))[name]
    await watched.get(FEED, key)
    assert (await watched.samples("brokerage_elasticsearch_request_seconds"))[name] > before


async def test_an_engine_that_is_away_is_reported_and_delays_no_scrape(
    watch: Callable[..., Awaitable[Watched]], key: str
) -> None:
    watched = await watch(url="http://127.0.0.1:9")
    assert await watched.get(FEED, key) == 503
    seconds = await watched.samples("brokerage_elasticsearch_request_seconds")
    assert seconds["brokerage_elasticsearch_request_seconds_count", "none"] > 0
    assert await watched.samples("brokerage_index_mark_sequence") == {}


async def test_requests_in_flight_and_healthy_nodes_are_reported(watched: Watched, stand_in: StandIn, key: str) -> None:
    nodes = "brokerage_elasticsearch_nodes"
    assert await watched.samples(nodes) == {(nodes, "well"): 1, (nodes, "failed"): 0, (nodes, "silent"): 0}
    held = HeldReply()
    stand_in.out(held, "listings")
    asking = asyncio.create_task(watched.get(FEED, key))
    await until(lambda: any(path == "/listings/_search" for path, _ in stand_in.asked))
    running = await watched.samples("brokerage_elasticsearch_requests_running")
    assert running["brokerage_elasticsearch_requests_running",] >= 1
    limits: Any = await watched.samples("brokerage_requests_running")
    assert limits["brokerage_requests_running", "page"] == 1
    held.release.set()
    await asking
    (pulse,) = watched.services.engine.nodes
    pulse.is_healthy = False
    assert (await watched.samples(nodes))[nodes, "failed"] == 1
    let_be_silent(pulse)
    assert (await watched.samples(nodes))[nodes, "silent"] == 1


async def test_the_marks_of_all_resources_are_reported_with_the_age_of_the_index(
    watched: Watched, stand_in: StandIn
) -> None:
    for number, alias in enumerate(("listings", "offices"), 1):
        mark = {"clock": 1_500 * number, "sequence": number, "epoch": 0, "generation": f"{alias}-v0001"}
        stand_in.documents["control", mark_id(alias)] = mark
    name = "brokerage_index_mark_timestamp_seconds"
    assert await watched.samples(name) == {(name, "listings"): 1.5, (name, "offices"): 3.0}
    name = "brokerage_index_mark_sequence"
    assert await watched.samples(name) == {(name, "listings"): 1, (name, "offices"): 2}


async def test_records_that_are_not_as_their_source_says_are_counted_with_their_age(
    watched: Watched, stand_in: StandIn
) -> None:
    stand_in.documents["control", troubles_id("listings")] = {"count": 2, "since": 1_500}
    name = "brokerage_index_troubles"
    assert await watched.samples(name) == {(name, resource.alias): 2 * (resource is LISTING) for resource in RESOURCES}
    name = "brokerage_index_trouble_oldest_timestamp_seconds"
    assert await watched.samples(name) == {(name, "listings"): 1.5}


async def test_a_loop_that_is_held_up_is_late(watched: Watched) -> None:
    lag = watched.services.totals.loop_lag.seconds
    await until(lambda: lag.buckets()[-1][1] >= 1)
    before = lag.sum
    tried = lag.buckets()[-1][1]
    # Nothing else runs meanwhile: that is the point.
    _hold_up(0.6)
    await until(lambda: lag.buckets()[-1][1] > tried)
    assert lag.sum - before > 0.2
    assert ("brokerage_loop_lag_seconds_count",) in await watched.samples("brokerage_loop_lag_seconds")


def _hold_up(seconds: float) -> None:
    ends = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < ends:
        pass
