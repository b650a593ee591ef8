"""Data that were restored from a snapshot of Elasticsearch: no reader continues as if nothing had been undone."""

import asyncio
import math
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from brokerage.command import main
from brokerage_feed.copy_comparison import CopyDifferences, compare_resource
from indexer import begin_new_epochs, status
from mappings import LISTING
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from tests.consumer.conftest import open_pull
from tests.feed.feed_client import ConsumerCopy, FeedClient, deleted_listing, listing
from tests.feed.snapshot_repository import SnapshotRepository, snapshot_repository
from tests.indexer.shifted_clock import YEAR_AND_MORE, shifted_clock


@pytest.fixture(scope="module")
def engine_url(embedded_url: str) -> str:
    """The node with a folder for snapshots."""
    return embedded_url


@pytest.fixture
async def snapshots(feed: FeedClient) -> AsyncIterator[SnapshotRepository]:
    """Snapshots of the indices of a test."""
    async with snapshot_repository(feed.bench.client, feed.bench.connection.prefix) as repository:
        yield repository


def monitor(feed: FeedClient) -> HealthMonitor:
    """Return what finds replaced data."""
    found: HealthMonitor = feed.http.server.app[HEALTH_MONITOR]  # type: ignore[attr-defined]
    return found


async def change(feed: FeedClient, second: int, *names: str) -> None:
    """Give listings of the company `a` another price."""
    await feed.update(*(listing(name, "a", second, price=second) for name in names))


@pytest.mark.parametrize("over_closed", [False, True])
async def test_changes_after_a_restore_are_refused_until_readers_can_start_again(
    feed: FeedClient, snapshots: SnapshotRepository, *, over_closed: bool
) -> None:
    early = await feed.token()
    await snapshots.take("first")
    await change(feed, 10, "L0", "L2")
    copy = ConsumerCopy("listings")
    copy.load(await feed.snapshot("listings"))
    watermark = await next_watermark(feed)
    await snapshots.restore("first", over_closed=over_closed)
    await monitor(feed).check_now()
    for path in ("changes", "snapshot/listings", "digest/listings", "reso/EntityEvent"):
        status, body = await feed.get(path)
        assert (status, b"brokerage index restored" in body) == (503, True), (path, body)
    assert {each["PlatformListingId"] for each in await listings(feed, 0)} == {"L0", "L2", "L4"}

    assert await begin_new_epochs(feed.bench.engine()) == ["companies", "offices", "listings"]
    await monitor(feed).check_now()
    for token in (early, copy.token):
        assert await feed.problem("changes", since=token) == (410, "token-expired")
    copy.load(await feed.snapshot("listings"))
    assert {name: record["ListPrice"] for name, (_, record) in copy.records.items()} == {"L0": 0, "L2": 2, "L4": 4}
    # Readers by time receive what was undone, although it has an old time.
    assert {each["PlatformListingId"] for each in await listings(feed, watermark)} == {"L0", "L2", "L4"}
    # The watermark is reported with a delay.
    while (new := await next_watermark(feed)) * 1000 < (await feed.bench.mark(LISTING)).resend_before:
        continue
    assert await listings(feed, new) == []


@pytest.mark.parametrize(
    ("ahead", "tolerated"),
    [
        pytest.param(100.0, 120.0, id="within the bound of clocks"),
        pytest.param(YEAR_AND_MORE, math.inf, id="by a version that did not compare clocks"),
    ],
)
async def test_a_watermark_of_a_clock_that_was_ahead_does_not_outlive_its_data(
    feed: FeedClient, snapshots: SnapshotRepository, ahead: float, tolerated: float
) -> None:
    await snapshots.take("first")
    with shifted_clock(ahead):
        lines = [listing(name, "a", 10, price=10) for name in ("L0", "L2")]
        assert (await feed.bench.update({LISTING: lines}, clock_seconds=tolerated)).exit_code == 0
    watermark = (await feed.bench.mark(LISTING)).clock // 1000
    await snapshots.restore("first")
    await begin_new_epochs(feed.bench.engine())
    await monitor(feed).check_now()
    assert {each["PlatformListingId"] for each in await listings(feed, watermark)} == {"L0", "L2", "L4"}
    await change(feed, 20, "L4")
    assert {each["PlatformListingId"] for each in await listings(feed, watermark)} == {"L0", "L2", "L4"}
    # The new epoch has watermarks of its own, from which nothing is repeated but its last second.
    new = (await feed.bench.mark(LISTING)).clock // 1000
    assert [each["PlatformListingId"] for each in await listings(feed, new)] == ["L4"]
    assert not [one for one in await status(feed.bench.engine()) if one.is_mark_ahead]


async def listings(feed: FeedClient, since: int) -> list[dict[str, object]]:
    """Return the listings updated since a second."""
    answer = await feed.json("listings", platform_company_id="a", updated_since=since)
    found: list[dict[str, object]] = answer["Listings"]
    return found


async def next_watermark(feed: FeedClient) -> int:
    """Return the `updated_since` that the service gives for the next poll."""
    query = {"platform_company_id": "a", "updated_since": "0"}
    async with feed.http.get("/v1/listings", params=query, headers={"x-api-key": feed.keys["a"]}) as answer:
        return int(answer.headers["X-Next-Updated-Since"])


@pytest.mark.parametrize("indices", ["*", "listings*"])
async def test_the_next_update_after_a_restore_begins_a_new_epoch_by_itself(
    feed: FeedClient, snapshots: SnapshotRepository, indices: str
) -> None:
    await snapshots.take("first")
    await change(feed, 10, "L0", "L2")
    token = await feed.token()
    await snapshots.restore("first", indices)
    await change(feed, 20, "L4")
    await change(feed, 21, "L4")
    await change(feed, 22, "L4")
    assert (await feed.bench.mark(LISTING)).sequence > 8
    await monitor(feed).check_now()
    assert await feed.problem("changes", since=token) == (410, "token-expired")


_LOADED = ("companies", "offices", "listings")


async def test_a_pull_follows_a_restore_by_itself(
    feed: FeedClient, snapshots: SnapshotRepository, tmp_path: Path
) -> None:
    url, key = str(feed.http.make_url("/v1")), feed.keys["all"]
    async with open_pull(url, tmp_path, key=key, resources=_LOADED) as (pull, _):
        await pull.catch_up()
        await snapshots.take("first")
        await feed.update(listing("L0", "a", 10, price=99), deleted_listing("L2", "a", 10), listing("new", "b", 10))
        await pull.catch_up()
        await snapshots.restore("first")
        await begin_new_epochs(feed.bench.engine())
        await monitor(feed).check_now()
        # As many changes as were undone.
        await change(feed, 20, "L4")
        await change(feed, 21, "L4")
        await change(feed, 22, "L4")
        await pull.catch_up()
        assert [status.snapshots for status in pull.statuses.values()] == [2, 2, 2]
        for resource in _LOADED:
            assert await compare_resource(pull, resource) == CopyDifferences()
            copied = {row.id: row.content for row in pull.copy.rows(resource)}
            assert copied == await served(feed, resource)


async def served(feed: FeedClient, resource: str) -> dict[str, str]:
    """Return the content hashes of what is served."""
    return {line["id"]: line["content"] for line in (await feed.snapshot(resource, "all"))[1:-1]}


async def test_a_control_index_alone_that_is_restored_begins_a_new_epoch(
    feed: FeedClient, snapshots: SnapshotRepository
) -> None:
    await snapshots.take("first")
    await change(feed, 10, "L0")
    token, number = await feed.token(), (await events(feed))[-1]
    await snapshots.restore("first", "control")
    await monitor(feed).check_now()
    assert (await feed.problem("changes", since=token))[0] == 503
    replaced = [each["resource"] for each in await command(feed, "index", "status") if each["is_replaced"]]
    assert replaced == [*_LOADED]
    findings = [each for each in await command(feed, "doctor") if "brokerage index restored" in each["remedy"]]
    assert [each["subject"] for each in findings] == [*_LOADED]
    assert (await command(feed, "index", "restored", "--yes"))["resources"] == [*_LOADED]
    assert not any(each["is_replaced"] for each in await command(feed, "index", "status"))
    await monitor(feed).check_now()
    assert await feed.problem("changes", since=token) == (410, "token-expired")
    assert (await feed.get("reso/EntityEvent", **{"$filter": f"EntityEventSequence gt {number}"}))[0] == 410
    assert min(await events(feed)) > number


async def command(feed: FeedClient, *arguments: str) -> Any:
    """Run a command and return what it prints as JSON."""
    settings = {
        "ELASTICSEARCH_URL": feed.bench.connection.url[0],
        "BROKERAGE_INDEX_PREFIX": feed.bench.connection.prefix,
    }
    given = {**{name: None for name in os.environ if name.startswith("BROKERAGE_")}, **settings}
    ended = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--json"], env=given)
    assert ended.exit_code == 0, ended.output
    return orjson.loads(ended.stdout)


async def events(feed: FeedClient) -> list[int]:
    """Return the numbers of all events."""
    return [each["EntityEventSequence"] for each in (await feed.json("reso/EntityEvent"))["value"]]
