"""Bulk requests survive network faults and overload, and stop at errors that waiting does not resolve."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cluster.connection import connect
from indexer import (
    ElasticsearchError,
    FolderSource,
    IndexerContext,
    RebuildRequest,
    RunSummary,
    reindex,
)
from indexer.errors import FencedError
from mappings import COMPANY, LISTING, TEAM
from mappings.indices import index_body
from tests.indexer.bulk_writes import bulk_sender, bulk_write, bulky, count, created_index, proxied_client, writes
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.network.bulk_proxy import (
    BulkProxy,
    busy_for_all,
    busy_for_every_other,
    cut_before,
    cut_behind,
    documents,
    refused,
)
from tests.network.http import Reply, Request
from tests.records import COMPANY_KEY, envelope, write

pytestmark = pytest.mark.usefixtures("quick_retries")


async def through(bench: Bench, proxy: BulkProxy, retry_seconds: float = 5.0) -> RunSummary:
    """Rebuild teams, 10 in chunks of 5, through a proxy."""
    lines = {COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM, {"uuid": f"t{n}"}) for n in range(10)]}
    source = write(bench.folder, lines)
    settings = replace(bench.settings, bulk_documents=5, bulks_in_flight=1, retry_seconds=retry_seconds)
    async with proxy.running() as address:
        connection = replace(bench.connection, url=(address,))
        async with connect(connection, connections=4, timeout=60) as client:
            context = IndexerContext(client, connection, settings)
            return await reindex(context, FolderSource(source), RebuildRequest([TEAM]))


FAULTS = {
    **{f"{status} of a request": refused(status) for status in (429, 502, 503, 504)},
    "reset before it happened": cut_before,
    "answer lost": cut_behind,
    "429 of some documents": busy_for_every_other,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_that_passes_loses_nothing(bench: Bench, fault: Callable[..., object]) -> None:
    index = await created_index(bench, "faulty")
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [fault, fault]
    async with proxied_client(bench, proxy) as client:
        sending = bulk_sender(bench, index, client=client)
        result = await sending.send(writes(5))
    assert result.rejected == []
    assert proxy.bulks == 3
    assert sending.limit.retries == 2
    assert await count(bench, index) == 5


async def test_a_build_through_all_faults_is_exact(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = list(FAULTS.values())
    report = (await through(bench, proxy)).report_for("teams")
    assert (report.read, report.indexed, report.stale, report.dead) == (10, 10, 0, 0)
    served = await bench.served(TEAM)
    assert sorted(served) == sorted(f"t{n}" for n in range(10))
    assert sorted(document["sequence"] for document in served.values()) == list(range(1, 11))
    assert proxy.bulks == len(FAULTS) + 2


async def test_only_the_documents_that_were_refused_as_busy_are_sent_again(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [busy_for_every_other]
    sent: list[int] = []

    async def counting(given: BulkProxy, request: Request) -> Reply:
        sent.append(documents(request))
        return await given.forward(request)

    proxy.faults += [counting, counting]
    await through(bench, proxy)
    assert sorted(sent) == [2, 5]


async def test_an_engine_that_stays_overloaded_ends_the_run(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [refused(429)] * 10_000
    with pytest.raises(ElasticsearchError, match="Elasticsearch returned 429 to a bulk request: made up"):
        await through(bench, proxy, retry_seconds=0.2)
    assert not await bench.client.indices.exists_alias(name=bench.connection.alias(TEAM))


async def test_documents_that_stay_busy_end_the_run(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [busy_for_all] * 10_000
    with pytest.raises(ElasticsearchError, match=r"rejected documents as overloaded for 0\.2 s"):
        await through(bench, proxy, retry_seconds=0.2)


async def test_a_request_that_is_too_large_is_sent_in_halves(bench: Bench) -> None:
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [refused(413), refused(413), refused(413)]
    report = (await through(bench, proxy)).report_for("teams")
    # Of 5 documents the first half has 2, and its first is refused alone.
    assert (report.indexed, report.dead, report.refusal) == (9, 1, None)
    assert len(await bench.served(TEAM)) == 9
    assert [letter["reason"] for letter in bench.letters()] == [
        "is too large for Elasticsearch: made up. Shorten the record, or give Elasticsearch more memory"
    ]


async def test_a_block_on_writes_stops_with_what_to_do(bench: Bench) -> None:
    index = await created_index(bench, "blocked")
    await bench.client.indices.put_settings(index=index, settings={"index.blocks.read_only_allow_delete": True})
    with pytest.raises(
        ElasticsearchError, match=r"rejects writes: .*read-only.*\. Free disk space or remove the block\."
    ):
        await bulk_sender(bench, index, retry_seconds=3600).send(writes(2))


async def test_a_missing_index_is_not_waited_for(bench: Bench) -> None:
    with pytest.raises(ElasticsearchError, match="404") as error:
        await bulk_sender(bench, f"{bench.connection.prefix}nowhere", retry_seconds=3600).send(writes(2))
    assert not isinstance(error.value, FencedError)


async def test_poison_among_good_documents_is_isolated(bench: Bench) -> None:
    index = f"{bench.connection.prefix}poisoned"
    await bench.client.indices.create(index=index, **index_body(LISTING))  # type: ignore[arg-type]
    good = parse_line(LISTING, envelope(LISTING))
    bad = parse_line(LISTING, envelope(LISTING, {"PlatformListingId": "bad", "ListingID": "x" * 40_000}))
    result = await bulk_sender(bench, index).send([bulk_write(bad), bulk_write(good)])
    assert [(write.id, "immense term" in reason) for write, reason in result.rejected] == [("bad", True)]
    again = await bulk_sender(bench, index).send([bulk_write(good)])
    assert again.existing == [bulk_write(good)]
    assert good.company == COMPANY_KEY


async def test_a_large_document_that_is_refused_alone_is_set_aside_after_the_others(bench: Bench) -> None:
    index = await created_index(bench, "heavy")
    large = bulky(1, 200_000)
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [busy_where_large] * 10_000
    async with proxied_client(bench, proxy) as client:
        result = await bulk_sender(bench, index, client=client, retry_seconds=0.1, bulk_bytes=150_000).send(
            [*large, *writes(5)]
        )
    assert [(write.id, reason.startswith("was rejected while others")) for write, reason in result.rejected] == [
        ("b0", True)
    ]
    assert await count(bench, index) == 5


async def test_a_large_document_alone_is_no_proof_against_it(bench: Bench) -> None:
    index = await created_index(bench, "lonely")
    proxy = BulkProxy(bench.connection.url[0])
    proxy.faults = [busy_where_large] * 10_000
    async with proxied_client(bench, proxy) as client:
        with pytest.raises(ElasticsearchError, match="429"):
            await bulk_sender(bench, index, client=client, retry_seconds=0.1, bulk_bytes=150_000).send(
                bulky(1, 200_000)
            )


async def busy_where_large(proxy: BulkProxy, request: Request) -> Reply:
    """Refuse every request with more bytes than small documents have, as a proxy with little memory does."""
    return await (refused(429)(proxy, request) if len(request.body) > 150_000 else proxy.forward(request))
