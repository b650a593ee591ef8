"""When keys were last used: noted for good keys only, written in the background, and never at a request's cost."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.app import build_services
from service.keys.ring import KeyUsage
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.internals import Internals, metric
from tests.service.api_client import services_of, status
from tests.service.stand_in import Reply, StandIn, refusal
from tests.waiting import until

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
BLOCKED = (
    b'{"items":[{"index":{"status":429,"error":{"type":"cluster_block_exception",'
    b'"reason":"index [key_usage] blocked by: [TOO_MANY_REQUESTS/12/disk usage]"}}}]}'
)
NOT_RECORDED = "The last use of keys is not being recorded: "


def usage_of(api: TestClient[Any, Any]) -> KeyUsage:
    """Return what notes the use of keys."""
    return services_of(api).keys.usage


@asynccontextmanager
async def running(usage: KeyUsage) -> AsyncIterator[None]:
    """Let it write in the background."""
    task = asyncio.create_task(usage.run())
    yield
    task.cancel()
    await asyncio.wait([task])


def failures() -> float:
    """Return how many attempts to write have failed in this process."""
    return metric("brokerage_key_usage_failures_total")


async def test_the_use_of_a_key_is_written_once_however_often_it_is_used(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    keys = [stand_in.grant(), stand_in.grant()]
    for key in (*keys, *keys):
        assert await status(api, key) == 200
    assert stand_in.written == []
    await usage_of(api).flush()
    assert [line["index"]["_id"] for line in stand_in.written[::2]] == [key[3:13] for key in keys]
    await usage_of(api).flush()
    assert len(stand_in.written) == 4


async def test_refused_requests_do_not_count_as_use(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    other = stand_in.grant()
    stand_in.documents["api_keys", other[3:13]]["digest"] = "0" * 64
    for key in (stand_in.grant(revoked=past), stand_in.grant(expires=past), other):
        assert await status(api, key) == 401
    await usage_of(api).flush()
    assert stand_in.written == []


async def test_the_last_use_is_written_at_the_end(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert await status(api, stand_in.grant()) == 200
    await api.close()
    assert [line["index"]["_id"] for line in stand_in.written[::2]] == [stand_in.keys[0][3:13]]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refusal(403, "security_exception"), "the service's user lacks the privilege `index` on key_usage."),
        (refusal(503, "unavailable_shards_exception"), "Elasticsearch did not accept the write."),
        (Reply(delay=30.0), "Elasticsearch did not accept the write."),
        (Reply(body=b"[]"), "Elasticsearch did not accept the write."),
        (Reply(body=b'{"items":[{"index":{"status":429}}]}'), "Elasticsearch returned 429."),
        (Reply(body=BLOCKED), "key_usage is blocked: index [key_usage] blocked by: [TOO_MANY_REQUESTS/12/disk usage]."),
    ],
)
async def test_a_failure_costs_no_request_and_is_logged_once(
    api: TestClient[Any, Any],
    stand_in: StandIn,
    caplog: pytest.LogCaptureFixture,
    internals: Internals,
    reply: Reply,
    said: str,
) -> None:
    # Only where there is no response: a busy machine may need longer than that.
    internals(key_use_write_timeout=0.2 if reply.delay else 60.0)
    key = stand_in.grant()
    stand_in.out(reply, "key_usage")
    before = failures()
    for _ in range(2):
        assert await status(api, key) == 200
        await usage_of(api).flush()
    assert failures() >= before + 2
    assert caplog.text.count(NOT_RECORDED) == caplog.text.count(NOT_RECORDED + said) == 1
    internals(key_use_write_timeout=60.0)
    stand_in.replies.clear()
    stand_in.written.clear()
    await usage_of(api).flush()
    assert [line["index"]["_id"] for line in stand_in.written[::2]] == [key[3:13]]
    assert "is being recorded again" in caplog.text


async def test_many_keys_are_written_in_parts_and_what_was_written_is_not_written_again(
    api: TestClient[Any, Any], stand_in: StandIn, internals: Internals
) -> None:
    internals(key_uses_written_at_once=2)
    usage, names = usage_of(api), ["a", "b", "c", "d", "e"]
    for name in names:
        usage.record_use(name, NOON)
    stand_in.out(refusal(503, "unavailable_shards_exception"), "key_usage")
    await usage.flush()
    assert len(stand_in.written) == 4
    stand_in.replies.clear()
    stand_in.written.clear()
    await usage.flush()
    assert [line["index"]["_id"] for line in stand_in.written[::2]] == names
    await usage.flush()
    assert len(stand_in.written) == 2 * len(names)


async def test_it_is_written_in_the_background(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    usage = KeyUsage(services_of(api).engine, "key_usage", every_seconds=0.01)
    async with running(usage):
        usage.record_use("a", NOON)
        await until(lambda: len(stand_in.written) == 2)
        usage.record_use("a", NOON + MINUTE)
        await until(lambda: len(stand_in.written) == 4)


async def test_on_a_real_engine_it_never_goes_backwards(
    client: AsyncElasticsearch, reader: AsyncElasticsearch, connection: ConnectionSettings
) -> None:
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    engine = build_services(reader, ServiceSettings(), connection).engine
    key_id = (await store.create(KeyGrant("x", all_companies=True))).key_id
    workers = [KeyUsage(engine, connection.usage_index) for _ in range(2)]
    for worker, at in ((0, NOON), (1, NOON - MINUTE), (1, NOON), (0, NOON + MINUTE)):
        before = failures()
        workers[worker].record_use(key_id, at)
        await workers[worker].flush()
        await client.indices.refresh(index=connection.usage_index)
        assert await store.last_used() == {key_id: max(at, NOON)}
        assert failures() == before


async def test_a_missing_index_is_not_made_by_the_service(
    client: AsyncElasticsearch,
    reader: AsyncElasticsearch,
    connection: ConnectionSettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    usage = KeyUsage(build_services(reader, ServiceSettings(), connection).engine, connection.usage_index)
    usage.record_use("a", NOON)
    await usage.flush()
    assert not await client.indices.exists(index=f"{connection.usage_index}*", allow_no_indices=False)
    assert f"there is no alias {connection.usage_index}; `brokerage keys create` creates it" in caplog.text
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    assert await store.last_used() == {}
    await store.create(KeyGrant("x", all_companies=True))
    await usage.flush()
    await client.indices.refresh(index=connection.usage_index)
    assert await store.last_used() == {"a": NOON}
