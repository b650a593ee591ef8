"""What a sender makes of each document, in how many requests, and that it stops when it is fenced out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
import pytest

from indexer import EngineError, LockedError, retry
from indexer.bulk import Terms, Verdict
from indexer.errors import FencedError
from indexer.retry import is_blocked
from tests.indexer.fault_proxy import FaultProxy, cut_before, documents, items, refused
from tests.indexer.sending import bulky, count, created, proxied, sender, writes

if TYPE_CHECKING:
    from aiohttp import web

    from tests.indexer.conftest import Bench


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as one would, a hundred times faster."""
    monkeypatch.setattr(retry, "_FIRST_SECONDS", 0.005)


async def test_every_class_of_document_is_told_apart(bench: Bench) -> None:
    index, sent = await created(bench, "mixed"), writes(9)
    proxy = FaultProxy(bench.connection.url[0])
    again: list[str] = []

    async def seeing(given: FaultProxy, request: web.Request, body: bytes) -> web.Response:
        again.extend(orjson.loads(line)["index"]["_id"] for line in body.splitlines()[::2])
        return await given.forward(request, body)

    proxy.faults = [items(201, 200, 409, 400, 413, 429, 502, 503, 504), seeing]
    async with proxied(bench, proxy) as client:
        verdict = await sender(bench, index, client=client).send(sent)
    assert verdict == Verdict([sent[1], sent[2]], [(sent[3], "made 400"), (sent[4], "made 413")])
    assert again == ["t5", "t6", "t7", "t8"]
    assert await count(bench, index) == 4


async def test_a_status_that_is_none_of_these_ends_the_run(bench: Bench) -> None:
    proxy = FaultProxy(bench.connection.url[0])
    proxy.faults = [items(201, 500)]
    async with proxied(bench, proxy) as client:
        with pytest.raises(EngineError, match="answered 500 to a bulk request: made 500"):
            await sender(bench, "any", client=client).send(writes(2))
    assert proxy.bulks == 1


async def test_an_equal_version_is_replaced_on_demand_only(bench: Bench) -> None:
    index = await created(bench, "versions")
    (first,) = bulky(1)
    later, older = first._replace(source=b'{"record":{"text":"later"}}'), first._replace(version=0)
    assert await sender(bench, index).send([first]) == Verdict()
    assert await sender(bench, index).send([later]) == Verdict([later])
    assert (await bench.client.get(index=index, id="b0"))["_source"] == orjson.loads(first.source)
    replacing = sender(bench, index, terms=Terms(replaces_equal=True))
    assert await replacing.send([later, older]) == Verdict([later, older])
    assert (await bench.client.get(index=index, id="b0"))["_source"] == orjson.loads(later.source)


async def test_nothing_to_write_is_no_request(bench: Bench) -> None:
    assert await sender(bench, "nowhere").send([]) == Verdict()


async def test_what_is_given_is_cut_by_documents_and_by_bytes(bench: Bench) -> None:
    index, proxy = await created(bench, "cut"), FaultProxy(bench.connection.url[0])
    async with proxied(bench, proxy) as client:
        await sender(bench, index, client=client, bulk_documents=20).send(bulky(50))
        await sender(bench, index, client=client, bulk_bytes=100_000).send(bulky(30))
    assert [size for size, _ in proxy.requests] == [20, 20, 10, 15, 15]
    assert await count(bench, index) == 50


async def test_a_document_above_all_bounds_goes_alone(bench: Bench) -> None:
    index, proxy = await created(bench, "large"), FaultProxy(bench.connection.url[0])
    small, large = bulky(2), bulky(3, size=300_000)[2:]
    async with proxied(bench, proxy) as client:
        await sender(bench, index, client=client, bulk_bytes=100_000).send([*small, *large])
    assert [size for size, _ in proxy.requests] == [2, 1]
    assert await count(bench, index) == 3


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_after_an_overload_the_same_documents_go_in_smaller_requests(bench: Bench, status: int) -> None:
    index, proxy = await created(bench, "smaller"), FaultProxy(bench.connection.url[0])
    proxy.faults = [refused(status)] * 2
    async with proxied(bench, proxy) as client:
        await sender(bench, index, client=client, bulk_documents=40).send(bulky(40))
    assert proxy.requests == [(40, False), (20, False), *[(10, True)] * 4]
    assert await count(bench, index) == 40


async def test_a_timeout_is_an_overload_and_a_reset_is_none(bench: Bench) -> None:
    async def stuck(_proxy: FaultProxy, _request: web.Request, _body: bytes) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError

    for fault, then in ((cut_before, 40), (stuck, 20)):
        index, proxy = await created(bench, f"then-{then}"), FaultProxy(bench.connection.url[0])
        proxy.faults = [fault]
        async with proxied(bench, proxy, seconds=1) as client:
            await sender(bench, index, client=client, bulk_documents=40).send(bulky(40))
        assert proxy.requests[-1] == (then, True)


async def test_no_more_requests_run_together_than_the_pace_allows(bench: Bench) -> None:
    index, proxy, running, most = await created(bench, "together"), FaultProxy(bench.connection.url[0]), 0, 0

    async def counting(given: FaultProxy, request: web.Request, body: bytes) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return await given.forward(request, body)

    proxy.faults = [counting] * 40
    async with proxied(bench, proxy) as client:
        sending = sender(bench, index, client=client, bulk_documents=10, bulks_in_flight=3)
        sent = bulky(200)
        await asyncio.gather(*(sending.send(sent[at : at + 20]) for at in range(0, 200, 20)))
    assert (most, proxy.bulks) == (3, 20)
    assert await count(bench, index) == 200


async def test_a_writer_whose_alias_is_gone_writes_nothing_more(bench: Bench) -> None:
    index, proxy = await created(bench, "fenced"), FaultProxy(bench.connection.url[0])
    alias = f"{index}-writer-3"
    await bench.client.indices.put_alias(index=index, name=alias)

    async def fencing(given: FaultProxy, request: web.Request, body: bytes) -> web.Response:
        await bench.client.indices.delete_alias(index=index, name=alias)
        return await given.forward(request, body)

    async def passing(given: FaultProxy, request: web.Request, body: bytes) -> web.Response:
        return await given.forward(request, body)

    proxy.faults = [passing, passing, fencing]
    terms = Terms(require_alias=True, opaque_id="brokerage-run-3-ab")
    async with proxied(bench, proxy) as client:
        with pytest.raises(FencedError, match="Another run has taken over") as error:
            await sender(bench, alias, client=client, terms=terms, bulk_documents=10).send(bulky(50))
    assert isinstance(error.value, LockedError)
    assert proxy.bulks == 3
    assert proxy.marks == {"brokerage-run-3-ab"}
    assert await count(bench, index) == 20


async def test_an_index_in_place_of_the_alias_is_no_target(bench: Bench) -> None:
    index = await created(bench, "no-alias")
    with pytest.raises(FencedError):
        await sender(bench, index, terms=Terms(require_alias=True)).send(writes(1))
    assert await count(bench, index) == 0


async def test_the_patience_begins_anew_with_each_document_that_is_taken(bench: Bench) -> None:
    index, proxy = await created(bench, "slow"), FaultProxy(bench.connection.url[0])

    async def one(given: FaultProxy, request: web.Request, body: bytes) -> web.Response:
        await given.forward(request, b"".join(body.splitlines(keepends=True)[:2]))
        await asyncio.sleep(0.25)
        answered: web.Response = await items(201, *[429] * (documents(body) - 1))(given, request, body)
        return answered

    proxy.faults = [one] * 9
    async with proxied(bench, proxy) as client:
        verdict = await sender(bench, index, client=client, retry_seconds=1.5).send(bulky(10))
    assert verdict == Verdict()
    assert await count(bench, index) == 10


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];", True),
        ("index [a] blocked by: [FORBIDDEN/8/index write (api)];", True),
        ("blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];", False),
        ("blocked by: [SERVICE_UNAVAILABLE/2/no master];", False),
    ],
)
def test_a_block_that_passes_by_itself_is_waited_out(reason: str, expected: bool) -> None:
    error = {"type": "cluster_block_exception", "reason": reason}
    assert is_blocked({"error": error, "status": 503}) is is_blocked({"error": error}) is expected
    assert not is_blocked({"error": error | {"type": "es_rejected_execution_exception"}})
    assert not is_blocked("text")
