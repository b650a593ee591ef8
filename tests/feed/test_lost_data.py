"""Elasticsearch that is away, that came back empty, or that earlier versions have filled: what readers are given."""

from dataclasses import replace
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from cluster.control_index import mark_id
from mappings import COMPANY, LISTING, RESOURCES
from service.app import create_app
from service.health.monitor import HEALTH_MONITOR
from tests.feed.conftest import SETTINGS
from tests.feed.feed_client import FeedClient, company, listing
from tests.indexer.conftest import Bench
from tests.network.proxy import Proxy

_OF_EPOCHS = ("life", "named_at", "resend_before", "index", "control")


async def refusal(feed: FeedClient, path: str, **parameters: str) -> tuple[int, bool]:
    """Return the status, and whether the response says when to try again."""
    async with feed.http.get(f"/v1/{path}", params=parameters, headers={"x-api-key": feed.keys["a"]}) as answer:
        return answer.status, answer.headers.get("Retry-After", "").isdigit()


async def check_now(feed: FeedClient) -> None:
    """Let the service find out what is loaded now; until then it may refuse requests with 503."""
    await feed.http.server.app[HEALTH_MONITOR].check_now()  # type: ignore[attr-defined]


async def test_while_elasticsearch_is_away_no_reader_is_at_the_end(feed: FeedClient) -> None:
    async with Proxy(feed.bench.connection.url[0]).running() as proxy:
        app = create_app(SETTINGS, replace(feed.bench.connection, url=(proxy.url,)))
        async with TestClient(TestServer(app)) as http:
            reader = FeedClient(http, feed.keys, feed.bench)
            token = await reader.token()
            proxy.refuse()
            assert await refusal(reader, "changes", since=token) == (503, True)
            assert await refusal(reader, "changes", since=token, wait="1") == (503, True)
            assert await refusal(reader, "reso/EntityEvent") == (503, True)
            await proxy.heal()
            assert (await reader.json("changes", since=token))["at_end"]


async def test_a_cluster_that_came_back_empty_and_was_loaded_again_voids_every_position(feed: FeedClient) -> None:
    token, number = await feed.token(), (await events(feed))[-1]
    listings = await feed.token(resources="listings")
    lost = [name for name in await feed.bench.indices() if not name.startswith(("api_keys", "key_usage"))]
    prefix = feed.bench.connection.prefix
    await feed.bench.client.indices.delete(index=[f"{prefix}{name}" for name in (*lost, "control")])
    for path in ("changes", "snapshot/listings", "digest/listings", "reso/EntityEvent"):
        assert await refusal(feed, path) == (503, True), path
    assert await refusal(feed, "changes", since=token) == (503, True)

    # Loaded again, with as many changes as there were, and more.
    lines = [listing(f"L{at}", "ab"[at % 2], price=at) for at in range(8)]
    assert (await feed.bench.build({COMPANY: [company(key) for key in "abc"], LISTING: lines})).exit_code == 0
    await feed.update(listing("L0", "a", 10), listing("L2", "a", 10))
    assert (await feed.bench.mark(LISTING)).sequence == 10
    await check_now(feed)
    # The offices are not loaded yet.
    assert await feed.problem("changes", since=token, resources="offices") == (410, "token-expired")
    for position in (token, listings):
        assert await feed.problem("changes", since=position) == (410, "token-expired")
    filtered = {"$filter": f"EntityEventSequence gt {number}"}
    assert await refusal(feed, "reso/EntityEvent", **filtered) == (410, False)
    assert min(await events(feed)) > number


async def test_an_update_of_one_resource_lets_all_be_followed_again_after_the_control_index_was_lost(
    feed: FeedClient,
) -> None:
    token = await feed.token()
    await feed.bench.client.indices.delete(index=feed.bench.connection.control_index)
    await feed.update(listing("L0", "a", 10, price=7))
    await check_now(feed)
    status, body = await feed.get("changes", since=token)
    assert (status, b"older than the keys" in body) == (410, True)
    assert {each["id"] for each in (await feed.changes(None, resources="offices"))[0]} == {"O1"}
    assert len(await feed.snapshot("offices")) == 3


async def events(feed: FeedClient) -> list[int]:
    """Return the numbers of all events."""
    return [each["EntityEventSequence"] for each in (await feed.json("reso/EntityEvent"))["value"]]


async def test_an_elasticsearch_of_an_earlier_version_keeps_its_readers(feed: FeedClient) -> None:
    await remove_names(feed.bench)
    token = await feed.token()
    await feed.update(listing("L0", "a", 10, price=7))
    mark = await feed.bench.mark(LISTING)
    assert (bool(mark.epoch_id), mark.named_at, mark.resend_before, mark.epoch) == (True, 6, 0, 0)
    assert await feed.summaries(token) == [("L0", 7)]
    # A reader that has gone on has the name of the epoch in its token.
    _, later = await feed.changes(token)
    assert await feed.summaries(later) == []
    await feed.update(listing("L2", "a", 11, price=8))
    assert await feed.summaries(later) == [("L2", 8)]


async def test_a_token_without_a_name_from_beyond_the_naming_is_void(feed: FeedClient) -> None:
    await feed.update(listing("L0", "a", 10, price=7))
    before = await documents(feed.bench)
    await remove_names(feed.bench)
    token = await feed.token()
    # As after a restore of what was there before the update.
    await write(feed.bench, {name: {**each, "sequence": min(each["sequence"], 6)} for name, each in before.items()})
    await remove_names(feed.bench)
    assert await feed.problem("changes", since=token) == (410, "token-expired")
    await feed.update(listing("L4", "a", 11), listing("L2", "a", 11), listing("L0", "a", 11))
    assert await feed.problem("changes", since=token) == (410, "token-expired")


async def documents(bench: Bench) -> dict[str, dict[str, Any]]:
    """Return the marks as they are stored, by id."""
    ids = [mark_id(bench.connection.alias(resource)) for resource in RESOURCES]
    found = await bench.client.mget(index=bench.connection.control_index, ids=ids)
    return {each["_id"]: each["_source"] for each in found["docs"] if each.get("found")}


async def write(bench: Bench, marks: dict[str, dict[str, Any]]) -> None:
    """Store marks."""
    for name, mark in marks.items():
        await bench.client.index(index=bench.connection.control_index, id=name, document=mark, refresh=True)


async def remove_names(bench: Bench) -> None:
    """Make the marks those of a version without names."""
    marks = await documents(bench)
    await write(
        bench,
        {name: {key: value for key, value in mark.items() if key not in _OF_EPOCHS} for name, mark in marks.items()},
    )
