"""Limits over HTTP, counted in one process: rates, requests at a time, failures of an address, and their headers."""

import asyncio
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from service.limits.admission import AuthFailuresLimited, ConcurrencyLimited
from service.limits.rates import AuthFailureLimiter, KeyLimiter
from tests.internals import Clock, Internals, metric
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.limits.test_rate_policy import POLICY, RATE_LIMIT
from tests.service.limits.test_rate_policy import key as key_record
from tests.service.stand_in import HeldReply, Reply, StandIn
from tests.waiting import until

LISTINGS = "/v1/listings?platform_company_id=acme&updated_since={}"
COMPANIES = "/v1/companies"
NAMES = {"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}


@pytest.fixture(autouse=True)
def _no_time_passes(internals: Internals) -> None:
    """What was counted does not come back, however slow the machine is."""
    internals(rates_time=Clock())


@pytest.fixture(autouse=True)
def company(stand_in: StandIn) -> None:
    """One company."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")


async def ask(api: TestClient[Any, Any], key: str, path: str = COMPANIES, **headers: str) -> ClientResponse:
    """Send a request and read its answer."""
    response = await api.get(path, headers={"x-api-key": key, **headers})
    await response.read()
    return response


def remaining(response: ClientResponse) -> int:
    """Return what both headers say is left."""
    match = RATE_LIMIT.fullmatch(response.headers["RateLimit"])
    assert match is not None
    assert response.headers["X-RateLimit-Remaining"] == match[1]
    return int(match[1])


def counted(kind: str) -> float:
    """Return the metric of refusals."""
    return metric("brokerage_limit_refusals_total", kind=kind)


def limiter(api: TestClient[Any, Any]) -> KeyLimiter:
    """Return the limiter of a service."""
    found: KeyLimiter = services_of(api).limits.rates
    return found


async def test_head_costs_what_get_costs(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    key = {"x-api-key": stand_in.grant(rate=2, burst=3)}
    asked = [await api.request(method, COMPANIES, headers=key) for method in ("GET", "HEAD", "HEAD", "HEAD")]
    assert [response.status for response in asked] == [200, 200, 200, 429]
    assert [remaining(response) for response in asked] == [2, 1, 0, 0]


async def test_a_key_is_refused_after_its_burst_with_retry_after(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    key, other = stand_in.grant(rate=2, burst=3), stand_in.grant(rate=2, burst=3)
    hits, refusals = metric("brokerage_limit_hits_total"), counted("rate")
    answers = [await ask(api, key) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert [remaining(answer) for answer in answers] == [2, 1, 0, 0, 0]
    problem = await answers[-1].json()
    assert (problem["code"], problem["status"], problem["type"]) == ("rate-limited", 429, "/docs/problems#rate-limited")
    # Some clients show their users the sentence alone.
    wait = answers[-1].headers["Retry-After"]
    assert problem["detail"] == f"The key has exceeded its rate limit. Try again in {wait} s."
    match = RATE_LIMIT.fullmatch(answers[-1].headers["RateLimit"])
    assert match is not None
    assert 1 <= int(match[2]) <= int(answers[-1].headers["Retry-After"]) <= 30
    assert (await ask(api, other)).status == 200
    assert (metric("brokerage_limit_hits_total") - hits, counted("rate") - refusals) == (6, 2)


async def test_a_refused_request_asks_elasticsearch_nothing(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    key = stand_in.grant(rate=1, burst=1)
    await ask(api, key)
    stand_in.asked.clear()
    assert [(await ask(api, key, LISTINGS.format(n))).status for n in range(1, 4)] == [429] * 3
    assert stand_in.asked == []


async def test_headers_are_on_every_answer_of_a_known_key_errors_too(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    key = stand_in.grant(rate=300, all_companies=False, companies=("acme",))
    paths = {
        200: LISTINGS.format(1),
        400: "/v1/listings",
        403: "/v1/listings?platform_company_id=other",
        404: "/v1/listings/none",
    }
    answers = {status: await ask(api, key, path) for status, path in paths.items()}
    stand_in.out(Reply(status=503), "listings")
    answers[503] = await ask(api, key, LISTINGS.format(2))
    # Resolved a second time, as a copy of the request.
    answers[-200] = await ask(api, key, "/v1//companies/")
    assert [abs(status) for status in answers] == [answer.status for answer in answers.values()]
    assert [remaining(answer) for answer in answers.values()] == [49, 48, 47, 46, 45, 44]
    for answer in answers.values():
        assert POLICY.fullmatch(answer.headers["RateLimit-Policy"])
        assert answer.headers["RateLimit-Policy"] == '"burst";q=50;w=10,"minute";q=300;w=60'
        assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Reset"].isdigit()) == ("50", True)


async def test_who_has_no_rate_has_no_headers_and_neither_have_probes(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    assert not NAMES & (await ask(api, stand_in.grant(rate=None))).headers.keys()
    for path in ("/livez", "/readyz", "/startupz", "/nowhere"):
        assert not NAMES & (await api.get(path)).headers.keys()
    refused = await ask(api, "wrong")
    assert refused.status == 401
    assert not NAMES & refused.headers.keys()


async def test_the_tier_of_a_key_is_that_of_the_settings(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(tiers=("gold=120/2",))
    answer = await ask(api, stand_in.grant(rate=5, tier="gold"))
    assert answer.headers["RateLimit-Policy"] == '"burst";q=2;w=1,"minute";q=120;w=60'


async def ask_again(api: TestClient[Any, Any], key: str, tags: str) -> ClientResponse:
    """Request the listings with tags that the client claims to have."""
    return await api.get(LISTINGS.format(1), headers={"x-api-key": key, "If-None-Match": tags})


async def test_what_is_not_modified_costs_nothing(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    key, unlimited = stand_in.grant(rate=1, burst=5), stand_in.grant(rate=None)
    first = await ask(api, key, LISTINGS.format(1))
    assert remaining(first) == 4
    answers = [await ask_again(api, key, first.headers["ETag"]) for _ in range(5)]
    assert [(answer.status, remaining(answer)) for answer in answers] == [(304, 4)] * 5
    assert (await ask_again(api, unlimited, first.headers["ETag"])).status == 304


async def test_not_modified_beyond_the_limit_of_the_key_counts(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    key = stand_in.grant(rate=1, burst=3)
    tag = (await ask(api, key, LISTINGS.format(1))).headers["ETag"]
    answers = [await ask_again(api, key, tag) for _ in range(6)]
    assert [answer.status for answer in answers] == [304] * 5 + [429]
    assert [remaining(answer) for answer in answers] == [2, 2, 2, 1, 0, 0]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_that_claims_to_have_anything_pays(
    api: TestClient[Any, Any], stand_in: StandIn, method: str
) -> None:
    headers = {"x-api-key": stand_in.grant(rate=1, burst=3), "If-None-Match": "*"}
    answers = [await api.request(method, LISTINGS.format(1), headers=headers) for _ in range(4)]
    assert [answer.status for answer in answers] == [304, 304, 304, 429]


async def test_one_key_has_so_many_requests_at_a_time(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(key_concurrency=2)
    key, other = stand_in.grant(rate=60), stand_in.grant(rate=60)
    await ask(api, key)
    held = HeldReply()
    stand_in.out(held, "listings")
    running = [asyncio.create_task(ask(api, key, LISTINGS.format(n))) for n in range(2)]
    await until(lambda: [path for path, _ in stand_in.asked].count("/listings/_search") == 2)
    refusals = counted("concurrency")
    refused = await ask(api, key)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert (await refused.json())["code"] == "too-many-at-once"
    assert refused.headers.keys() >= NAMES
    assert counted("concurrency") == refusals + 1
    assert (await ask(api, other)).status == 200
    held.release.set()
    assert [answer.status for answer in await asyncio.gather(*running)] == [200, 200]
    assert (await ask(api, key)).status == 200


async def test_a_client_that_leaves_releases_its_slot(open_api: Open) -> None:
    of_service = limiter(await open_api(key_concurrency=1))

    holding = asyncio.Event()

    async def hold() -> None:
        with of_service.slot(key_record()):
            holding.set()
            await asyncio.sleep(3600)

    running = asyncio.create_task(hold())
    await holding.wait()
    with pytest.raises(ConcurrencyLimited), of_service.slot(key_record()):
        pass
    running.cancel()
    await asyncio.wait([running])
    with of_service.slot(key_record()):
        pass


async def test_wrong_keys_of_an_address_are_refused_sooner_and_right_ones_never(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    key = stand_in.grant()
    statuses = [(await ask(api, "wrong")).status for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert stand_in.asked == []
    refusals = counted("failures")
    refused = await ask(api, "wrong")
    assert (await refused.json())["code"] == "rate-limited"
    assert 1 <= int(refused.headers["Retry-After"]) <= 3
    assert counted("failures") == refusals + 1
    # Without a key, and with one that is well formed and unknown.
    stand_in.documents.clear()
    assert (await api.get(COMPANIES)).status == (await ask(api, key)).status == 429
    assert (await ask(api, stand_in.grant())).status == 200


async def test_addresses_behind_a_trusted_proxy_fail_apart(open_api: Open) -> None:
    api = await open_api(trusted_proxies=("127.0.0.0/8",), failures_per_minute=1)
    first, second = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
    answers = [await ask(api, "wrong", **headers) for headers in (first, first, second)]
    assert [answer.status for answer in answers] == [401, 429, 401]


async def test_a_header_of_an_untrusted_client_is_ignored(open_api: Open) -> None:
    api = await open_api(failures_per_minute=1)
    answers = [await ask(api, "wrong", **{"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(3)]
    assert [answer.status for answer in answers] == [401, 429, 429]


async def test_failures_can_go_unlimited(open_api: Open) -> None:
    api = await open_api(failures_per_minute=0)
    assert {(await ask(api, "wrong")).status for _ in range(30)} == {401}


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("2a00:1:2:3::1", "2a00:1:2:3:ffff::9", True),
        ("2a00:1:2:3::1", "2a00:1:2:4::1", False),
        ("203.0.113.1", "203.0.113.1", True),
        ("203.0.113.1", "203.0.113.2", False),
    ],
)
def test_an_address_of_version_6_counts_with_its_network(first: str, second: str, is_same: bool) -> None:
    failures = AuthFailureLimiter(1)
    failures.count(ip_address(first))
    if is_same:
        with pytest.raises(AuthFailuresLimited):
            failures.count(ip_address(second))
    else:
        failures.count(ip_address(second))
