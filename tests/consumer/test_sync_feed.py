"""The feed without `await`: the same records, changes and errors, also where a loop is running."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from itertools import islice
from typing import cast

import pytest

from brokerage_feed import Change, Feed, FeedRequestRejected, SyncFeed, TokenExpired
from tests.consumer.conftest import ServedStandIn
from tests.consumer.stand_in_service import KEY, respond_with
from tests.logs import logged

MANY = 1200


def _snapshot(url: str) -> tuple[str, list[str]]:
    with SyncFeed(url, KEY) as feed:
        header, records = feed.snapshot("listings")
        return header.token, [record.id for record in records]


async def test_it_reads_what_the_asynchronous_one_reads(served: ServedStandIn) -> None:
    for number in range(MANY):
        served.stand_in.put("listings", f"x{number:04}")
    served.stand_in.cuts = [700]
    async with Feed(served.url, KEY) as feed:
        header, records = await feed.snapshot("listings")
        expected = header.token, [record.id async for record in records]
    served.stand_in.cuts = [700]
    assert await asyncio.to_thread(_snapshot, served.url) == expected
    assert len(expected[1]) == MANY + 7


async def test_records_are_dictionaries_and_the_feed_continues_with_their_changes(
    served: ServedStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    served.stand_in.put("agents", "a9", name="Ann")
    served.stand_in.cuts = [1]

    def read() -> list[tuple[str, str]]:
        with SyncFeed(served.url, KEY) as feed:
            known = list(feed.records("agents"))
            assert [record["name"] for record in known if "name" in record] == ["Ann"]
            served.stand_in.put("agents", "a9", name="Bea")
            served.stand_in.drop("agents", "a1")
            first, second = islice(feed, 2)
            with pytest.raises(ValueError, match="a removal has no record"):
                second.as_dict()
            return [(first.id, first.as_dict()["name"]), (second.id, second.reason or "")]

    assert await asyncio.to_thread(read) == [("a9", "Bea"), ("a1", "deleted")]
    assert any(said.startswith("Trying again in ") for said in logged(caplog, "brokerage_feed"))


async def test_pages_and_digests_are_the_same(served: ServedStandIn) -> None:
    async with Feed(served.url, KEY) as feed:
        pages, digest = [page async for page in feed.changes(page_size=20)], await feed.digest("agents")

    def read() -> None:
        with SyncFeed(served.url, KEY) as feed:
            assert [page.next for page in feed.changes(page_size=20)] == [page.next for page in pages]
            assert feed.digest("agents") == digest

    await asyncio.to_thread(read)
    assert len(pages) > 1


async def test_changes_are_followed_one_by_one_and_resume_from_the_token(served: ServedStandIn) -> None:
    start = f"agents.0.{served.stand_in.sequences['agents']}"

    def read() -> list[str]:
        with SyncFeed(served.url, KEY) as feed:
            found = [change.id for change in islice(feed.follow([start]), 2)]
            assert feed.token == ""  # of a page that was not read to its end
            feed.token = start
            return found + [change.id for change in islice(feed, 3)]

    for name in ("new", "newer", "newest"):
        served.stand_in.put("agents", name)
    assert await asyncio.to_thread(read) == ["new", "newer", "new", "newer", "newest"]


async def test_the_asynchronous_one_is_followed_the_same_way(served: ServedStandIn) -> None:
    async with Feed(served.url, KEY) as feed:
        feed.token = f"agents.0.{served.stand_in.sequences['agents']}"
        served.stand_in.put("agents", "new")
        changes = cast("AsyncGenerator[Change, None]", aiter(feed))
        assert (await anext(changes)).id == "new"
        served.stand_in.put("agents", "newer")
        # A later page, so the first was read to its end.
        assert (await anext(changes)).id == "newer"
        assert feed.token == f"agents.0.{served.stand_in.sequences['agents'] - 1}"
        await changes.aclose()


async def test_errors_come_after_the_records_before_them(served: ServedStandIn, waits: list[float]) -> None:
    served.stand_in.cuts = [4]
    served.stand_in.faults = [None, respond_with(403, "forbidden")]
    found: list[str] = []

    def read() -> None:
        with SyncFeed(served.url, KEY) as feed, pytest.raises(FeedRequestRejected, match="forbidden"):
            found.extend(record.id for record in feed.snapshot("listings")[1])

    def read_expired() -> None:
        with SyncFeed(served.url, KEY) as feed, pytest.raises(TokenExpired):
            next(feed.changes(["agents.9.1"]))

    await asyncio.to_thread(read)
    assert len(waits) == 1
    await asyncio.to_thread(read_expired)


async def test_it_works_beside_a_running_loop_and_leaves_no_thread(served: ServedStandIn) -> None:
    """As in a notebook: a loop runs in the thread that calls."""

    def read() -> None:
        async def in_a_loop() -> list[str]:
            return _snapshot(served.url)[1]

        assert len(asyncio.run(in_a_loop())) == 7

    await asyncio.to_thread(read)
    assert "brokerage-feed" not in {thread.name for thread in threading.enumerate()}


async def test_an_iterator_that_is_left_early_ends_with_the_feed(served: ServedStandIn) -> None:
    def read() -> None:
        with SyncFeed(served.url, KEY) as feed:
            _, records = feed.snapshot("listings")
            assert [record.id for record in islice(records, 1)] == ["l0"]
            followed = feed.follow(["agents.0.0"])
            assert [change.id for change in islice(followed, 1)] == ["a0"]

    await asyncio.to_thread(read)
    assert "brokerage-feed" not in {thread.name for thread in threading.enumerate()}
