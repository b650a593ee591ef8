"""What `brokerage doctor` says of subscriptions."""

import time
from typing import Any

import msgspec
import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.app import build_services
from service.deliver.capability import check_deliveries
from service.deliver.subscriptions import DELIVERIES_INDEX_BODY, HEARTBEAT_ID, OPEN_AFTER, Progress
from tests.service_settings import service_settings

_REFUSED = "10.0.0.1 is an address of a private network"


@pytest.mark.parametrize(
    ("members", "age", "said"),
    [
        ({}, 0.0, "1 without problems"),
        ({}, 300.0, "No process of `brokerage deliver` gives a sign"),
        ({"is_stopped": True}, 0.0, "The subscription crm gets nothing: its key k is not valid."),
        ({"waiting": 900.0}, 0.0, "The subscription crm is 15 minutes behind. Last answer: none."),
        (
            {"waiting": 180.0, "failures": OPEN_AFTER, "answer": _REFUSED},
            0.0,
            f"3 minutes behind. Last answer: {_REFUSED}.",
        ),
    ],
)
async def test_it_names_what_keeps_subscriptions_from_their_changes(
    client: AsyncElasticsearch,
    reader: AsyncElasticsearch,
    connection: ConnectionSettings,
    members: dict[str, Any],
    age: float,
    said: str,
) -> None:
    services, index = build_services(reader, service_settings(), connection), connection.deliveries_index
    assert await check_deliveries(services) is None
    await client.indices.create(index=index, **DELIVERIES_INDEX_BODY)
    assert await check_deliveries(services) is None
    if "waiting" in members:
        members = members | {"waiting": int((time.time() - members["waiting"]) * 1000)}
    progress = Progress(name="crm", key_id="k", url="https://crm.example/", **members)
    await client.index(index=index, id="s", document=msgspec.to_builtins(progress))
    await client.index(index=index, id=HEARTBEAT_ID, document={"at": int((time.time() - age) * 1000)}, refresh=True)
    finding = await check_deliveries(services)
    assert finding is not None
    assert said in finding.sentence
    assert finding.is_fatal is False
