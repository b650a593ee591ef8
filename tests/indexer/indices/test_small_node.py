"""A node of its own that is soon overloaded and whose disk seems full, which the shared one must not be."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from embedded import EmbeddedCluster, NodeOptions
from indexer import ElasticsearchError
from indexer.generations.preflight import preflight
from indexer.scan import fetch_documents, scan_documents
from mappings import COMPANY, TEAM
from tests.indexer.bulk_writes import bulk_sender, bulky, count, created_index, proxied_client
from tests.indexer.conftest import Bench
from tests.network.bulk_proxy import BulkProxy
from tests.records import envelope

_WATERMARK = "cluster.routing.allocation.disk.watermark"
# More than any disk has.
_FULL = {f"{_WATERMARK}.{name}": "1000tb" for name in ("low", "high", "flood_stage")}
_CHECKED_EVERY = {"cluster.info.update.interval": "10s"}


@pytest.fixture(scope="module")
def small_node() -> Iterator[str]:
    """The address of a node that accepts 400 kB of bulk requests at a time, and checks its disk often."""
    settings = {"indexing_pressure.memory.limit": "400kb", **_CHECKED_EVERY}
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=512, settings=settings)) as cluster:
        yield cluster.url


@pytest.fixture
def connection(small_node: str, prefix: str) -> ConnectionSettings:
    return ConnectionSettings(url=(small_node,), prefix=prefix)


@pytest.fixture
async def full_disk(client: AsyncElasticsearch) -> AsyncIterator[None]:
    """Watermarks that declare the disk full; removed at the end."""
    await client.cluster.put_settings(persistent=_FULL)
    yield
    await lift(client)


async def lift(client: AsyncElasticsearch) -> None:
    """Remove the watermarks that declare the disk full."""
    await client.cluster.put_settings(persistent=dict.fromkeys(_FULL))


@pytest.mark.usefixtures("quick_retries")
async def test_a_load_settles_to_what_an_overloaded_node_takes(bench: Bench) -> None:
    index, proxy, sent = await created_index(bench, "pressed"), BulkProxy(bench.connection.url[0]), bulky(12_000)
    async with proxied_client(bench, proxy) as client:
        sending = bulk_sender(bench, index, client=client, bulk_documents=100, bulks_in_flight=2, retry_seconds=60)
        verdicts = await asyncio.gather(*(sending.send(sent[at : at + 3000]) for at in range(0, 12_000, 3000)))
    assert not any(verdict.existing or verdict.rejected for verdict in verdicts)
    assert await count(bench, index) == 12_000
    taken = [documents for documents, all_taken in proxy.requests if all_taken]
    assert max(taken) < 100
    adapting = proxy.requests.index((taken[0], True))
    needed = sum(documents for documents, all_taken in proxy.requests[adapting:] if all_taken) / max(taken)
    print(len(proxy.requests), adapting, sending.limit.retries, max(taken), len(proxy.requests[adapting:]) / needed)
    assert len(proxy.requests[adapting:]) <= 1.5 * needed


async def test_a_record_that_never_fits_is_set_aside_and_those_behind_it_are_applied(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    teams = [envelope(TEAM, {"uuid": f"t{n}", "description": "x" * (500_000 if n == 1 else 9)}) for n in range(4)]
    # Without the distinction the update would wait for a day.
    summary = await bench.update({TEAM: teams}, retry_seconds=24 * 3600.0)
    assert (summary.report_for("teams").indexed, summary.report_for("teams").dead) == (3, 1)
    assert sorted(await bench.served(TEAM)) == ["t0", "t2", "t3", "team-1"]
    [letter] = bench.letters()
    assert (letter["line"], letter["records"]) == (2, ["t1"])
    assert letter["reason"].startswith("is too large for Elasticsearch: rejected execution of ")
    assert letter["reason"].endswith(". Shorten the record, or give Elasticsearch more memory")


@pytest.mark.usefixtures("quick_retries")
async def test_large_records_are_loaded_and_copied_within_the_memory_of_the_node(bench: Bench) -> None:
    await bench.client.cluster.put_settings(persistent={"indices.breaker.request.limit": "3mb"})
    try:
        teams = [envelope(TEAM, {"uuid": f"t{n}", "description": f"{n} " * 25_000}) for n in range(60)]
        for _ in range(2):
            summary = await bench.build({COMPANY: [envelope(COMPANY)], TEAM: teams}, retry_seconds=60)
            assert summary.exit_code == 0
        live = f"{bench.connection.prefix}{await bench.live(TEAM)}"
        found = await fetch_documents(bench.engine(), live, [f"t{n}" for n in range(60)])
        pages = [page async for page in scan_documents(bench.engine(), live, query={"match_all": {}}, order="feed_key")]
    finally:
        await bench.client.cluster.put_settings(persistent={"indices.breaker.request.limit": None})
    assert len(found) == sum(map(len, pages)) == 60


async def test_a_disk_that_fills_up_stops_a_load_at_once_and_writes_work_again_afterwards(bench: Bench) -> None:
    index = await created_index(bench, "flooded")
    loading = asyncio.create_task(load_until_stopped(bench, index))
    await asyncio.sleep(0.5)
    await bench.client.cluster.put_settings(persistent=_FULL)
    try:
        with pytest.raises(
            ElasticsearchError, match=r"rejects writes: .*disk usage exceeded.*\. Free disk space"
        ) as error:
            await asyncio.wait_for(loading, 120)
    finally:
        await lift(bench.client)
    assert error.value.exit_code == 3
    await wait_for_writes(bench, index)


async def load_until_stopped(bench: Bench, index: str) -> None:
    """Write without end, with a deadline that no test reaches."""
    sending: Any = bulk_sender(bench, index, retry_seconds=24 * 3600, bulk_documents=20)
    while True:
        await sending.send(bulky(20))
        await asyncio.sleep(0.05)


async def wait_for_writes(bench: Bench, index: str) -> None:
    """Wait until writes are accepted again; the node checks its disk every ten seconds."""
    async with asyncio.timeout(120):
        while True:
            try:
                await bulk_sender(bench, index, retry_seconds=0).send(bulky(1))
            except ElasticsearchError:
                await asyncio.sleep(0.5)
            else:
                return


async def test_a_full_disk_is_refused_before_anything_is_written(bench: Bench, full_disk: None) -> None:  # noqa: ARG001
    with pytest.raises(ElasticsearchError, match=r"disks are full: no data node is below its flood stage \(1000tb\)"):
        await preflight(bench.client, needed_bytes=1, force=False)
    assert len(await preflight(bench.client, needed_bytes=1, force=True)) == 1
    await lift(bench.client)
    assert await preflight(bench.client, needed_bytes=1, force=False) == []
