"""Requests with invented keys: they take no place of others, share one small search, and leave a known key alone."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from service.keys.api_key import generate_key
from service.limits.admission import ConcurrencyLimit, RequestKind
from tests.service.api_client import services_of, status
from tests.service.conftest import Open
from tests.service.stand_in import HeldReply, StandIn
from tests.waiting import until

STRANGERS = 60
SETTLED = {"fresh_seconds": 3600.0, "stale_seconds": 3600.0, "failures_per_minute": 0}


@pytest.fixture(autouse=True)
def company(stand_in: StandIn) -> None:
    """One company."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")


def limit(api: TestClient[Any, Any], kind: RequestKind) -> ConcurrencyLimit:
    found: ConcurrencyLimit = services_of(api).limits.admission.limits[kind]
    return found


async def test_strangers_take_no_place_from_a_known_key(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    api = await open_api(concurrency=1, queue=0, show_concurrency=1, **SETTLED)
    held = HeldReply()
    stand_in.out(held, "api_keys")
    strangers = limit(api, RequestKind.UNKNOWN_KEY)
    asking = [asyncio.create_task(status(api, generate_key().reveal())) for _ in range(STRANGERS)]
    await until(lambda: strangers.running + strangers.refused == STRANGERS)
    assert [await status(api, key, path) for path in ("/v1/companies", "/v1/companies/acme")] == [200, 200]
    assert (limit(api, RequestKind.PAGE).refused, strangers.running) == (0, strangers.slots)
    held.release.set()
    assert set(await asyncio.gather(*asking)) <= {401, 503}
    assert strangers.running == 0


async def test_many_invented_ids_share_a_search(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(**SETTLED)
    stand_in.keys_read.clear()
    strangers = limit(api, RequestKind.UNKNOWN_KEY)
    asked = [status(api, generate_key().reveal()) for _ in range(strangers.slots)]
    assert await asyncio.gather(*asked) == [401] * strangers.slots
    assert len(stand_in.keys_read) < strangers.slots
    assert set(stand_in.keys_read) == {1}
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []


async def test_a_stranger_that_leaves_cancels_no_other(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(**SETTLED)
    held = HeldReply()
    stand_in.out(held, "api_keys")
    strangers = limit(api, RequestKind.UNKNOWN_KEY)
    leaving, staying = (asyncio.create_task(status(api, generate_key().reveal())) for _ in range(2))
    await until(lambda: strangers.running == 2)
    leaving.cancel()
    await until(lambda: strangers.running == 1)
    stand_in.replies.clear()
    held.release.set()
    assert await staying == 401


async def test_a_key_that_is_revoked_while_it_waits_for_a_place_is_refused(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    api = await open_api(concurrency=1, queue=1, queue_seconds=3600.0, **SETTLED)
    pages = limit(api, RequestKind.PAGE)
    async with pages.slot("test"):
        waiting = asyncio.create_task(status(api, key))
        await until(lambda: pages.waiting)
        stand_in.documents.clear()
        await services_of(api).keys.warm()
    assert await waiting == 401
