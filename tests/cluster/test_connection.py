"""The client of the cluster: refused without an address, never retrying by itself, named behind the prefix."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from elasticsearch import ApiError, TransportError

from cluster.connection import ConnectionSettings, connect
from cluster.control_index import mark_id
from cluster.settings import SettingError
from mappings import RESOURCES, SOLD_LISTING
from tests.network.http import HANG_UP, Reply, Request, http
from tests.network.server import serving

UNAVAILABLE = Reply(status=503)


def test_without_an_address_connecting_is_refused_with_the_way_out() -> None:
    with pytest.raises(SettingError, match="ELASTICSEARCH_URL") as caught:
        connect(ConnectionSettings(), connections=1, timeout=1)
    assert "brokerage node" in str(caught.value)


def test_the_prefix_stands_before_every_name() -> None:
    settings = ConnectionSettings(prefix="test-")
    assert settings.alias(SOLD_LISTING) == "test-sold_listings"
    assert (settings.keys_index, settings.control_index) == ("test-api_keys", "test-control")


def test_no_index_of_the_product_shares_a_name_with_another() -> None:
    settings = ConnectionSettings()
    names = [settings.alias(resource) for resource in RESOURCES] + [settings.keys_index, settings.control_index]
    assert len(set(names)) == len(names)
    assert len({mark_id(name) for name in names}) == len(names)


def answering(reply: Reply, seen: list[Request]) -> Callable[[Request], Awaitable[Reply]]:
    async def answer(request: Request) -> Reply:
        seen.append(request)
        return reply

    return answer


async def asked(reply: Reply = UNAVAILABLE, **settings: Any) -> list[Request]:
    """Return the requests that one call of a client makes, which fails by this reply."""
    seen: list[Request] = []
    async with (
        serving(http(answering(reply, seen))) as server,
        connect(ConnectionSettings(url=(server.url,), **settings), connections=1, timeout=5) as client,
    ):
        with pytest.raises((ApiError, TransportError)):
            await client.search()
    return seen


async def test_a_closed_client_stays_closed() -> None:
    """What goes on after its run has ended would otherwise open connections that nobody closes."""
    seen: list[Request] = []
    async with serving(http(answering(UNAVAILABLE, seen))) as server:
        async with connect(ConnectionSettings(url=(server.url,)), connections=1, timeout=5) as client:
            with pytest.raises(ApiError):
                await client.search()
        with pytest.raises(RuntimeError, match="closed"):
            await client.search()
    assert len(seen) == 1


@pytest.mark.parametrize("reply", [UNAVAILABLE, HANG_UP])
async def test_a_failed_call_is_not_repeated(reply: Reply) -> None:
    assert len(await asked(reply)) == 1


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({}, None),
        ({"api_key": "YTpi"}, "ApiKey YTpi"),
        ({"username": "reader", "password": "pw"}, "Basic " + base64.b64encode(b"reader:pw").decode()),
    ],
)
async def test_the_cluster_is_sent_the_credentials_of_the_settings(
    settings: dict[str, Any], header: str | None
) -> None:
    (request,) = await asked(**settings)
    assert request.headers.get("Authorization") == header
