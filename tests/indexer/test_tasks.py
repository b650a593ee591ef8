"""A run that took over waits until nothing of the run before is still arriving."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from indexer import EngineError
from indexer.tasks import settled
from tests.indexer.fault_proxy import FaultProxy
from tests.indexer.sending import created, proxied

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench

MARK = "brokerage-run-3-ab"
MEDIA_TYPE = "application/vnd.elasticsearch+json; compatible-with=9"
BODY = b'{"index":{"_id":"1"}}\n{}\n'


class Listing(FaultProxy):
    """A proxy that answers the first questions for tasks with made-up lists."""

    def __init__(self, target: str, *lists: dict[str, Any]) -> None:
        """Give the lists out one by one."""
        super().__init__(target)
        self.lists = list(lists)
        self.asked = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer with the next list, or forward."""
        if request.path != "/_tasks":
            return await super().answer(request)
        self.asked += 1
        if not self.lists:
            return await self.forward(request, b"")
        return web.json_response(self.lists.pop(0), headers={"x-elastic-product": "Elasticsearch"})


def tasks(*marks: str) -> dict[str, Any]:
    """Return a list of tasks with these marks on one node, and one without any."""
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


async def under_way(bench: Bench) -> bool:
    """Whether the engine lists a bulk request with the mark."""
    answer = await bench.client.perform_request(
        "GET", "/_tasks", params={"actions": "*bulk"}, headers={"accept": MEDIA_TYPE}
    )
    return MARK in str(answer.body)


async def test_a_bulk_request_that_is_under_way_is_waited_for(bench: Bench) -> None:
    unplaced = {"index.routing.allocation.require._name": "nowhere"}
    index = f"{bench.connection.prefix}unplaced"
    await bench.client.indices.create(index=index, settings=unplaced, wait_for_active_shards="0")
    sending, seen = asyncio.create_task(slow_bulk(bench, index)), False
    while not seen:
        seen = await under_way(bench)
    await settled(bench.client, "brokerage-run-3-other", 0)
    assert await under_way(bench)
    with pytest.raises(EngineError, match="busy for 0 s with what an earlier run had sent"):
        await settled(bench.client, MARK, 0)
    await settled(bench.client, MARK, 60)
    assert not await under_way(bench)
    await sending


async def test_two_looks_in_a_row_must_find_nothing(bench: Bench) -> None:
    await created(bench, "any")
    proxy = Listing(bench.connection.url[0], tasks("other"), tasks("other", MARK), tasks("other"))
    async with proxied(bench, proxy) as client:
        await settled(client, MARK, 60)
    assert proxy.asked == 4


async def test_a_node_that_cannot_be_asked_may_be_busy(bench: Bench) -> None:
    proxy = Listing(bench.connection.url[0], {"node_failures": [{"type": "made_up"}], "nodes": {}})
    async with proxied(bench, proxy) as client:
        with pytest.raises(EngineError):
            await settled(client, MARK, 0)
