"""A client that is refused again and again waits for its refusals; nothing else waits."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from service.health.monitor import DRAINING
from service.limits.rates import REFUSAL_PACER, RefusalPacer
from tests.internals import Clock, Internals
from tests.service.api_client import COMPANIES, app_of, status
from tests.service.conftest import Open
from tests.service.stand_in import Reply, StandIn
from tests.waiting import until

MISSPELLED = "/v1/companies?platform_compny_id=1"
TOO_MANY = "/v1/companies?" + "&".join(f"a{number}=1" for number in range(101))


@pytest.fixture(autouse=True)
def company(stand_in: StandIn) -> None:
    """One company."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")


@pytest.fixture(autouse=True)
def _endless_pause(internals: Internals) -> None:
    """What waits does not end by itself."""
    internals(refusals_longest_seconds=3600.0)


def pacer_of(api: TestClient[Any, Any]) -> RefusalPacer:
    """Return the pacer of a service."""
    pacer: RefusalPacer = app_of(api)[REFUSAL_PACER]
    return pacer


async def refused_late(api: TestClient[Any, Any], path: str, key: str = "") -> bool:
    """Return whether a request has to wait for its refusal."""
    waiting, sent = pacer_of(api).waiting, asyncio.create_task(status(api, key, path))
    await until(lambda: sent.done() or pacer_of(api).waiting > waiting)
    is_late = not sent.done()
    sent.cancel()
    with suppress(asyncio.CancelledError):
        await sent
    await until(lambda: pacer_of(api).waiting == waiting)
    return is_late


def test_refusals_of_a_client_take_turns_and_wait_a_few_seconds_at_most(internals: Internals) -> None:
    internals(rates_time=Clock(), refusals_longest_seconds=3.0)
    pacer = RefusalPacer(60, ())
    assert [pacer.delay("a") for _ in range(26)] == [n - 19 for n in range(22)] + [3.0, 3.0, 3.0, 3.0]
    assert pacer.delay("b") == -19


@pytest.mark.parametrize(
    ("path", "has_key", "expected"), [(MISSPELLED, True, 400), (TOO_MANY, True, 400), (COMPANIES, False, 401)]
)
async def test_the_refusals_of_a_client_wait_when_they_are_many(
    open_api: Open, stand_in: StandIn, path: str, has_key: bool, expected: int
) -> None:
    api, key = await open_api(refusals_per_minute=2), stand_in.grant() if has_key else ""
    assert [await status(api, key, path) for _ in range(2)] == [expected] * 2
    assert await refused_late(api, path, key)


async def test_a_key_over_its_rate_waits(open_api: Open, stand_in: StandIn) -> None:
    api, key = await open_api(refusals_per_minute=2), stand_in.grant(rate=1)
    assert [await status(api, key, COMPANIES) for _ in range(3)] == [200, 429, 429]
    assert await refused_late(api, COMPANIES, key)


async def test_answers_and_the_refusals_of_other_keys_do_not_wait(open_api: Open, stand_in: StandIn) -> None:
    api, key, other = await open_api(refusals_per_minute=1), stand_in.grant(), stand_in.grant()
    assert await status(api, key, MISSPELLED) == 400
    assert await refused_late(api, MISSPELLED, key)
    assert await status(api, key, COMPANIES) == 200
    assert await status(api, key, "/v1/listings/unknown") == 404
    assert await status(api, other, MISSPELLED) == 400


async def test_what_the_service_fails_to_do_is_said_at_once(open_api: Open, stand_in: StandIn) -> None:
    api, key = await open_api(refusals_per_minute=1), stand_in.grant()
    stand_in.replies["companies"] = Reply(status=503)
    assert [await status(api, key, COMPANIES) for _ in range(3)] == [503] * 3


async def test_probes_are_answered_at_once(open_api: Open) -> None:
    api = await open_api(refusals_per_minute=1)
    app_of(api)[DRAINING].set()
    assert [await status(api, path="/readyz") for _ in range(3)] == [503] * 3


async def test_few_wait_at_a_time(open_api: Open, stand_in: StandIn, internals: Internals) -> None:
    api, key = await open_api(refusals_per_minute=1), stand_in.grant()
    internals(refusals_most_waiting=0)
    assert [await status(api, key, MISSPELLED) for _ in range(3)] == [400] * 3


async def test_refusals_can_all_be_sent_at_once(open_api: Open, stand_in: StandIn) -> None:
    api, key = await open_api(refusals_per_minute=0), stand_in.grant()
    assert {await status(api, key, MISSPELLED) for _ in range(200)} == {400}
