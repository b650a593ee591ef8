"""A run that took over a lock waits until no request of the previous run can still arrive."""

import asyncio
import socket
from dataclasses import replace
from typing import Any

import orjson
import pytest

from indexer import ElasticsearchError
from indexer.lock import wait_for_bulk_tasks
from mappings import TEAM
from tests.indexer.bulk_writes import created_index, proxied_client
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import dead_process, hold, lock_holder
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import Reply, Request
from tests.records import envelope

MARK = "brokerage-run-3-ab"
MEDIA_TYPE = "application/vnd.elasticsearch+json; compatible-with=9"
BODY = b'{"index":{"_id":"1"}}\n{}\n'


class Listing(RequestProxy):
    """A proxy that responds to the first task requests with made-up lists."""

    def __init__(self, target: str, *lists: dict[str, Any]) -> None:
        super().__init__(target)
        self.lists = list(lists)
        self.asked = 0

    async def reply(self, request: Request) -> Reply:
        """Respond with the next list, or forward."""
        if request.path != "/_tasks":
            return await super().reply(request)
        self.asked += 1
        if not self.lists:
            return await self.forward(request)
        return Reply(body=orjson.dumps(self.lists.pop(0)), headers={"x-elastic-product": "Elasticsearch"})


def tasks(*marks: str) -> dict[str, Any]:
    """Return a task list with these X-Opaque-Ids on one node, and one task without any."""
    listed = {str(number): {"headers": {"X-Opaque-Id": mark}} for number, mark in enumerate(marks)}
    return {"nodes": {"a": {"tasks": {}}, "b": {"tasks": {**listed, "x": {}}}}}


async def slow_bulk(bench: Bench, index: str) -> None:
    """Send a bulk request that waits six seconds for a shard that no node may have."""
    await bench.client.perform_request(
        "POST",
        f"/{index}/_bulk",
        params={"timeout": "6s"},
        headers={"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE, "x-opaque-id": MARK},
        body=BODY,
    )


async def in_flight(bench: Bench) -> bool:
    """Whether Elasticsearch lists a bulk request with the X-Opaque-Id."""
    answer = await bench.client.perform_request(
        "GET", "/_tasks", params={"actions": "*bulk"}, headers={"accept": MEDIA_TYPE}
    )
    return MARK in str(answer.body)


async def test_a_running_bulk_request_is_waited_for(bench: Bench) -> None:
    unplaced = {"index.routing.allocation.require._name": "nowhere"}
    index = f"{bench.connection.prefix}unplaced"
    await bench.client.indices.create(index=index, settings=unplaced, wait_for_active_shards="0")
    sending, seen = asyncio.create_task(slow_bulk(bench, index)), False
    while not seen:
        seen = await in_flight(bench)
    await wait_for_bulk_tasks(bench.client, "brokerage-run-3-other", 0)
    assert await in_flight(bench)
    with pytest.raises(ElasticsearchError, match="busy for 0 s with requests of an earlier run"):
        await wait_for_bulk_tasks(bench.client, MARK, 0)
    await wait_for_bulk_tasks(bench.client, MARK, 60)
    assert not await in_flight(bench)
    await sending


async def test_two_polls_in_a_row_must_find_nothing(bench: Bench) -> None:
    await created_index(bench, "any")
    proxy = Listing(bench.connection.url[0], tasks("other"), tasks("other", MARK), tasks("other"))
    async with proxied_client(bench, proxy) as client:
        await wait_for_bulk_tasks(client, MARK, 60)
    assert proxy.asked == 4


async def test_a_node_that_does_not_respond_may_be_busy(bench: Bench) -> None:
    proxy = Listing(bench.connection.url[0], {"node_failures": [{"type": "made_up"}], "nodes": {}})
    async with proxied_client(bench, proxy) as client:
        with pytest.raises(ElasticsearchError):
            await wait_for_bulk_tasks(client, MARK, 0)


async def test_a_build_waits_for_the_requests_of_the_run_from_which_it_took_the_lock(bench: Bench) -> None:
    await hold(bench, lock_holder(host=socket.gethostname(), pid=dead_process(), opaque_id=MARK))
    proxy = Listing(bench.connection.url[0], tasks(MARK), tasks())
    async with proxied_client(bench, proxy) as client:
        assert (await replace(bench, client=client).build({TEAM: [envelope(TEAM)]})).exit_code == 0
    assert proxy.asked == 3
    async with proxied_client(bench, proxy) as client:
        assert (await replace(bench, client=client).build({TEAM: [envelope(TEAM)]})).exit_code == 0
    assert proxy.asked == 3
