"""Bulk senders: the result of each document, the number of requests, and the stop when fenced out."""

import asyncio

import orjson
import pytest

from indexer import ElasticsearchError, LockedError
from indexer.bulk import BulkOptions, BulkResult, delete_documents
from indexer.errors import FencedError
from indexer.scan import look_up_rows
from tests.indexer.bulk_writes import bulk_sender, bulky, count, created_index, proxied_client, writes
from tests.indexer.conftest import Bench
from tests.network.bulk_proxy import BulkProxy, cut_before, documents, items, pairs, refused
from tests.network.http import Reply, Request

pytestmark = pytest.mark.usefixtures("quick_retries")


async def test_every_class_of_document_is_distinguished(bench: Bench) -> None:
    index, sent = await created_index(bench, "mixed"), writes(9)
    proxy = BulkProxy(bench.connection.url[0])
    again: list[str] = []

    async def seeing(given: BulkProxy, request: Request) -> Reply:
        again.extend(orjson.loads(line)["index"]["_id"] for line in request.body.splitlines()[::2])
        return await given.forward(request)

    proxy.faults = [items(201, 200, 409, 400, 413, 429, 502, 503, 504), seeing]
    async with proxied_client(bench, proxy) as client:
        result = await bulk_sender(bench, index, client=client).send(sent)
    assert result == BulkResult([sent[1], sent[2]], [(sent[3], "made 400"), (sent[4], "made 413")])
    assert again == ["t5", "t6", "t7", "t8"]
    assert await count(bench, index) == 4


async def test_a_status_that_is_none_of_these_ends_the_run(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [items(201, 500)]
    async with proxied_client(bench, proxy) as client:
        with pytest.raises(ElasticsearchError, match="returned 500 to a bulk request: made 500"):
            await bulk_sender(bench, "any", client=client).send(writes(2))
    assert proxy.bulks == 1


async def test_an_equal_version_is_replaced_on_demand_only(bench: Bench) -> None:
    index = await created_index(bench, "versions")
    (first,) = bulky(1)
    later, older = first._replace(source=b'{"record":{"text":"later"}}'), first._replace(version=0)
    assert await bulk_sender(bench, index).send([first]) == BulkResult()
    assert await bulk_sender(bench, index).send([later]) == BulkResult([later])
    assert (await bench.client.get(index=index, id="b0"))["_source"] == orjson.loads(first.source)
    replacing = bulk_sender(bench, index, terms=BulkOptions(replaces_equal=True))
    assert await replacing.send([later, older]) == BulkResult([later, older])
    assert (await bench.client.get(index=index, id="b0"))["_source"] == orjson.loads(later.source)


async def test_however_many_documents_are_deleted_each_is(bench: Bench) -> None:
    index, sent = await created_index(bench, "expired"), writes(1_201)
    await bulk_sender(bench, index).send(sent)
    assert await count(bench, index) == 1_201
    rows = await look_up_rows(bench.engine(), index, [write.id for write in sent])
    await delete_documents(bulk_sender(bench, index), [*rows.values()])
    assert await count(bench, index) == 0


async def test_nothing_to_write_sends_no_request(bench: Bench) -> None:
    assert await bulk_sender(bench, "nowhere").send([]) == BulkResult()


async def test_what_is_given_is_cut_by_documents_and_by_bytes(bench: Bench) -> None:
    index, proxy = await created_index(bench, "cut"), BulkProxy(bench.connection.url[0])
    async with proxied_client(bench, proxy) as client:
        await bulk_sender(bench, index, client=client, bulk_documents=20).send(bulky(50))
        await bulk_sender(bench, index, client=client, bulk_bytes=100_000).send(bulky(30))
    assert [size for size, _ in proxy.requests] == [20, 20, 10, 15, 15]
    assert await count(bench, index) == 50


async def test_a_document_above_all_bounds_goes_alone(bench: Bench) -> None:
    index, proxy = await created_index(bench, "large"), BulkProxy(bench.connection.url[0])
    small, large = bulky(2), bulky(3, size=300_000)[2:]
    async with proxied_client(bench, proxy) as client:
        await bulk_sender(bench, index, client=client, bulk_bytes=100_000).send([*small, *large])
    assert [size for size, _ in proxy.requests] == [2, 1]
    assert await count(bench, index) == 3


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_after_an_overload_the_same_documents_go_in_smaller_requests(bench: Bench, status: int) -> None:
    index, proxy = await created_index(bench, "smaller"), BulkProxy(bench.connection.url[0])
    proxy.faults = [refused(status)] * 2
    async with proxied_client(bench, proxy) as client:
        await bulk_sender(bench, index, client=client, bulk_documents=40).send(bulky(40))
    assert proxy.requests == [(40, False), (20, False), *[(10, True)] * 4]
    assert await count(bench, index) == 40


async def test_a_timeout_is_an_overload_and_a_reset_is_none(bench: Bench) -> None:
    async def stuck(given: BulkProxy, request: Request) -> Reply:
        # On a busy machine the first request may be given up before it comes here.
        if documents(request) == 40:
            await asyncio.sleep(3600)
        return await given.forward(request)

    for fault, seconds, then in ((cut_before, [], 40), (stuck, [1.0], 20)):
        index, proxy = await created_index(bench, f"then-{then}"), BulkProxy(bench.connection.url[0])
        proxy.faults = [fault]
        async with proxied_client(bench, proxy, seconds) as client:
            await bulk_sender(bench, index, client=client, bulk_documents=40).send(bulky(40))
        assert proxy.requests[-1] == (then, True)


async def test_no_more_requests_run_together_than_the_pace_allows(bench: Bench) -> None:
    index, proxy, running, most = await created_index(bench, "together"), BulkProxy(bench.connection.url[0]), 0, 0

    async def counting(given: BulkProxy, request: Request) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return await given.forward(request)

    proxy.faults = [counting] * 40
    async with proxied_client(bench, proxy) as client:
        sending = bulk_sender(bench, index, client=client, bulk_documents=10, bulks_in_flight=3)
        sent = bulky(200)
        await asyncio.gather(*(sending.send(sent[at : at + 20]) for at in range(0, 200, 20)))
    assert (most, proxy.bulks) == (3, 20)
    assert await count(bench, index) == 200


async def test_a_writer_whose_alias_is_gone_writes_nothing_more(bench: Bench) -> None:
    index, proxy = await created_index(bench, "fenced"), BulkProxy(bench.connection.url[0])
    alias = f"{index}-writer-3"
    await bench.client.indices.put_alias(index=index, name=alias)

    async def fencing(given: BulkProxy, request: Request) -> Reply:
        await bench.client.indices.delete_alias(index=index, name=alias)
        return await given.forward(request)

    async def passing(given: BulkProxy, request: Request) -> Reply:
        return await given.forward(request)

    proxy.faults = [passing, passing, fencing]
    terms = BulkOptions(require_alias=True, opaque_id="brokerage-run-3-ab")
    async with proxied_client(bench, proxy) as client:
        with pytest.raises(FencedError, match="Another run has taken over") as error:
            await bulk_sender(bench, alias, client=client, terms=terms, bulk_documents=10).send(bulky(50))
    assert isinstance(error.value, LockedError)
    assert proxy.bulks == 3
    assert proxy.marks == {"brokerage-run-3-ab"}
    assert await count(bench, index) == 20


async def test_an_index_instead_of_the_alias_is_not_a_target(bench: Bench) -> None:
    index = await created_index(bench, "no-alias")
    with pytest.raises(FencedError):
        await bulk_sender(bench, index, terms=BulkOptions(require_alias=True)).send(writes(1))
    assert await count(bench, index) == 0


async def test_the_backoff_restarts_with_each_accepted_document(bench: Bench) -> None:
    index, proxy = await created_index(bench, "slow"), BulkProxy(bench.connection.url[0])

    async def one(given: BulkProxy, request: Request) -> Reply:
        await given.forward(request, pairs(request)[0])
        await asyncio.sleep(0.25)
        reply: Reply = await items(201, *[429] * (documents(request) - 1))(given, request)
        return reply

    proxy.faults = [one] * 9
    async with proxied_client(bench, proxy) as client:
        result = await bulk_sender(bench, index, client=client, retry_seconds=1.5).send(bulky(10))
    assert result == BulkResult()
    assert await count(bench, index) == 10
