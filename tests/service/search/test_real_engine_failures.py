"""Failures of a real Elasticsearch, and the cancellation of abandoned searches in it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from service.app import reading_client
from service.errors import DeadlineExceeded, EngineUnavailable, InternalError
from service.search.engine import BatchLoader, SearchEngine
from service.settings import ServiceSettings

Ask = Awaitable[Any]

# The list of tasks is called a preview, for years.
pytestmark = pytest.mark.filterwarnings("ignore:This API is in technical preview")

BODY: dict[str, Any] = {"size": 10, "query": {"match_all": {}}, "track_total_hits": False}
NOWHERE = {"index.routing.allocation.require._name": "no-such-node"}
# Fields that no mapping has are read from the source of every document, again for each of them: seconds for these.
_DOCUMENTS, _FIELDS = 5_000, 48
SLOW: dict[str, Any] = {
    "size": 0,
    "runtime_mappings": {f"r{at}": {"type": "keyword"} for at in range(_FIELDS)},
    "query": {"bool": {"should": [{"term": {f"r{at}": "none"}} for at in range(_FIELDS)]}},
}


@pytest.fixture
async def engine(connection: ConnectionSettings) -> AsyncIterator[Callable[[float], SearchEngine]]:
    """Return engines with the given deadlines, in seconds."""
    async with reading_client(connection, 8, 30) as client:
        credentials = connection.authorization()
        yield lambda seconds: SearchEngine(client.transport, credentials, ServiceSettings(deadline_seconds=seconds))
    await asyncio.sleep(0.01)  # connections that were dropped are closed by the event loop in its next turn


@pytest.fixture
async def healthy(client: AsyncElasticsearch, prefix: str) -> str:
    """An index with a document."""
    name = f"{prefix}healthy"
    await client.indices.create(index=name, settings={"number_of_replicas": 0})
    await client.index(index=name, id="1", document={"a": 1}, refresh=True)
    return name


@pytest.fixture
async def red(client: AsyncElasticsearch, prefix: str) -> str:
    """An index whose only shard is on no node."""
    name = f"{prefix}red"
    await client.indices.create(index=name, settings={"number_of_replicas": 0, **NOWHERE}, wait_for_active_shards=0)
    return name


@pytest.fixture(scope="module")
async def slow(engine_url: str) -> AsyncIterator[str]:
    """An index in which `SLOW` takes seconds."""
    name = f"t{secrets.token_hex(4)}-slow"
    source = {f"f{at}": "y" * 20 for at in range(50)}
    async with connect(ConnectionSettings(url=(engine_url,)), connections=1, timeout=60) as client:
        await client.indices.create(
            index=name, settings={"number_of_shards": 1, "number_of_replicas": 0}, mappings={"dynamic": False}
        )
        await client.bulk(index=name, operations=[{"index": {}}, source] * _DOCUMENTS, refresh=True)
        yield name
        await client.indices.delete(index=name)


async def unavailable(asked: Ask) -> str:
    """Return the reason for the log of what must be a 503."""
    with pytest.raises(EngineUnavailable) as caught:
        await asked
    assert caught.value.status == 503
    return caught.value.reason


async def searching(client: AsyncElasticsearch, index: str) -> list[str]:
    found = await client.tasks.list(actions="*search*", detailed=True)
    tasks = [task for node in found["nodes"].values() for task in node["tasks"].values()]
    return [task["description"] for task in tasks if index in task["description"]]


async def until_idle(client: AsyncElasticsearch, index: str) -> None:
    """Wait until no search runs in an index."""
    async with asyncio.timeout(60):
        while await searching(client, index):  # noqa: ASYNC110 - Elasticsearch sets no event
            await asyncio.sleep(0.02)


async def until_busy(client: AsyncElasticsearch, index: str) -> None:
    """Wait until a search runs."""
    async with asyncio.timeout(60):
        while not await searching(client, index):  # noqa: ASYNC110 - Elasticsearch sets no event
            await asyncio.sleep(0.02)


async def test_a_complete_response_is_accepted(engine: Callable[[float], SearchEngine], healthy: str) -> None:
    answer = await engine(10).search(healthy, BODY)
    assert len(orjson.loads(answer)["hits"]["hits"]) == 1
    assert await engine(10).get_document(healthy, "1") == {"a": 1}
    assert await engine(10).get_document(healthy, "2") is None


async def test_an_index_whose_shard_is_nowhere_is_503(engine: Callable[[float], SearchEngine], red: str) -> None:
    assert "missing shards" in await unavailable(engine(10).search(red, BODY))
    assert "no_shard_available" in await unavailable(engine(10).get_document(red, "1"))


async def test_an_alias_over_a_good_and_a_broken_index_is_503_and_no_half(
    client: AsyncElasticsearch, engine: Callable[[float], SearchEngine], healthy: str, red: str, prefix: str
) -> None:
    alias = f"{prefix}both"
    await client.indices.update_aliases(actions=[{"add": {"index": index, "alias": alias}} for index in (healthy, red)])
    unguarded = await client.search(index=alias, size=10)
    assert (unguarded["_shards"]["failed"], len(unguarded["hits"]["hits"])) == (1, 1)
    await unavailable(engine(10).search(alias, BODY))


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_closed_index_is_503(
    client: AsyncElasticsearch,
    engine: Callable[[float], SearchEngine],
    healthy: str,
    red: str,
    prefix: str,
    is_alone: bool,
) -> None:
    alias = f"{prefix}alias"
    await client.indices.update_aliases(
        actions=[{"add": {"index": index, "alias": alias}} for index in ((healthy,) if is_alone else (healthy, red))]
    )
    await client.indices.close(index=healthy)
    await unavailable(engine(10).search(alias, BODY))
    await unavailable(engine(10).get_document(healthy, "1"))


async def test_a_missing_index_is_503(engine: Callable[[float], SearchEngine], prefix: str) -> None:
    await unavailable(engine(10).search(f"{prefix}nothing", BODY))
    await unavailable(engine(10).get_document(f"{prefix}nothing", "1"))


async def test_a_query_that_is_refused_is_our_defect_and_logged_with_the_query(
    engine: Callable[[float], SearchEngine], healthy: str
) -> None:
    with pytest.raises(InternalError) as caught:
        await engine(10).search(healthy, BODY | {"query": {"no_such_query": {}}})
    assert "unknown query [no_such_query]" in caught.value.reason
    assert '"size":10' in caught.value.reason


async def test_a_search_that_runs_out_of_its_own_time_is_504(
    engine: Callable[[float], SearchEngine], slow: str
) -> None:
    # Half a second less than this is what Elasticsearch is given.
    with pytest.raises(DeadlineExceeded):
        await engine(0.51).search(slow, SLOW)


async def test_a_search_that_an_operator_ends_is_503(
    client: AsyncElasticsearch, engine: Callable[[float], SearchEngine], slow: str
) -> None:
    asked = asyncio.create_task(engine(60).search(slow, SLOW))
    await until_busy(client, slow)
    found = await client.tasks.list(actions="indices:data/read/search", detailed=True)
    for node, listed in found["nodes"].items():
        for task in listed["tasks"].values():
            if slow in task["description"]:
                await client.tasks.cancel(task_id=f"{node}:{task['id']}")
    assert "task_cancelled_exception" in await unavailable(asked)


async def test_a_search_that_its_client_abandons_ends_in_elasticsearch(
    client: AsyncElasticsearch, engine: Callable[[float], SearchEngine], slow: str
) -> None:
    reader = engine(60)
    first, second = (asyncio.create_task(reader.search(slow, SLOW)) for _ in range(2))
    await until_busy(client, slow)
    first.cancel()
    await asyncio.sleep(0.1)
    assert len(await searching(client, slow)) >= 1
    second.cancel()
    await until_idle(client, slow)
    assert (first.cancelled(), second.cancelled()) == (True, True)


async def test_a_batch_without_waiters_is_cancelled_in_elasticsearch(
    client: AsyncElasticsearch, engine: Callable[[float], SearchEngine], slow: str
) -> None:
    async def search(_: object) -> dict[str, bytes]:
        await engine(60).search_unshared(slow, SLOW)
        raise AssertionError("It was not given up.")

    loader = BatchLoader()
    asking = [asyncio.create_task(loader.load("place", name, search)) for name in ("a", "b")]
    await until_busy(client, slow)
    for task in asking:
        task.cancel()
    await until_idle(client, slow)
