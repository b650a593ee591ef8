"""The client alone, against a service that breaks."""

import asyncio
import gc
from typing import Any

import pytest

from brokerage_feed import Feed, FeedRequestRejected, FeedUnavailable, TokenExpired
from tests.consumer.conftest import ServedStandIn
from tests.consumer.stand_in_service import KEY, hang_up, respond_with
from tests.network.http import Reply, Request, http
from tests.network.server import serving

MANY = 500


async def read(feed: Feed, resource: str = "listings", after: str | None = None) -> tuple[str, list[str]]:
    """Return the token of a snapshot and its identifiers."""
    header, records = await feed.snapshot(resource, after)
    return header.token, [record.id async for record in records]


async def test_a_truncated_snapshot_resumes_after_its_last_record(served: ServedStandIn, waits: list[float]) -> None:
    for number in range(MANY):
        served.stand_in.put("listings", f"x{number:04}", text="é" * 300)
    expected = [entry.id for entry in served.stand_in.live("listings")]
    served.stand_in.cuts = [200, 0, 1, 133]
    token = f"listings.0.{served.stand_in.sequences['listings']}"

    async def change(_: Request) -> None:
        served.stand_in.put("listings", "zz")

    served.stand_in.faults = [None, change]
    async with Feed(served.url, KEY) as feed:
        # The token is of before the change; the record comes with what followed.
        assert await read(feed) == (token, [*expected, "zz"])
        assert (await read(feed, after="acme:x0498"))[1] == ["x0499", "zz"]
    # The second and the third brought nothing, the first and the fourth did.
    asked = [query.get("after") for _, query in served.stand_in.asked]
    assert asked[:-1] == [None, *[f"acme:{expected[198]}"] * 3, f"acme:{expected[330]}"]
    assert len(waits) == 4


async def test_a_feed_whose_closing_is_cancelled_leaves_no_session_open(served: ServedStandIn) -> None:
    feed = Feed(served.url, KEY)
    await feed.__aenter__()
    await read(feed)
    closing = asyncio.create_task(feed.__aexit__(None, None, None))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    del feed, closing
    gc.collect()  # Python warns of sessions that are still open, and pytest fails


async def test_a_snapshot_without_its_last_line_is_not_whole(served: ServedStandIn, waits: list[float]) -> None:
    served.stand_in.ends = 1
    async with Feed(served.url, KEY) as feed:
        assert len((await read(feed))[1]) == 7
    assert [query.get("after") for _, query in served.stand_in.asked] == [None, "acme:l6"]
    assert len(waits) == 1


async def test_records_are_as_long_as_they_are(served: ServedStandIn) -> None:
    served.stand_in.put("listings", "z", text="x" * 1_000_000)
    async with Feed(served.url + "/v1/", KEY) as feed:
        _, records = await feed.snapshot("listings", "acme:m")
        assert [len(bytes(record.record)) > 1_000_000 async for record in records] == [True]


async def test_a_snapshot_that_is_not_what_it_says_is_read_again(served: ServedStandIn, waits: list[float]) -> None:
    expected = [entry.id for entry in served.stand_in.live("listings")]
    async with Feed(served.url, KEY, attempts=3) as feed:
        served.stand_in.lies = 2
        _, found = await read(feed)
        assert found == expected * 3
        served.stand_in.lies = 3
        with pytest.raises(FeedUnavailable, match="does not match the digest in its last line"):
            await read(feed)
    assert len(waits) == 2 + 2


async def test_passing_failures_are_waited_out_as_the_service_wishes(served: ServedStandIn, waits: list[float]) -> None:
    busy, away = respond_with(429, "rate-limited", **{"Retry-After": "7"}), respond_with(503, "overloaded")
    served.stand_in.faults = [busy, away, hang_up, hang_up, respond_with(504, "deadline-passed")]
    messages: list[str] = []
    # The first time it is hung up on a connection that had been used, which aiohttp itself tries again.
    async with Feed(served.url, KEY) as feed:
        feed.on_wait = lambda _, reason: messages.append(reason)
        pages = [page async for page in feed.changes(page_size=10)]
    assert [len(page.changes) for page in pages] == [10, 10, 10, 10, 2]
    assert [page.at_end for page in pages] == [False] * 4 + [True]
    assert 7 <= waits[0] < 8
    assert all(wait <= 2.0**number for number, wait in enumerate(waits[1:], 1))
    assert messages[0] == "/v1/changes returned 429 rate-limited: Made up."
    assert len(messages) == len(waits) == 4


async def test_attempts_are_bounded(served: ServedStandIn, waits: list[float]) -> None:
    served.stand_in.faults = [respond_with(503, "overloaded")] * 9
    async with Feed(served.url, KEY, attempts=4) as feed:
        with pytest.raises(
            FeedUnavailable, match=r"No valid response in 4 attempts\. The last error: /v1/digest/agents returned 503"
        ):
            await feed.digest("agents")
    assert (len(waits), len(served.stand_in.faults)) == (3, 5)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(410, TokenExpired), (401, FeedRequestRejected), (400, FeedRequestRejected), (404, FeedRequestRejected)],
)
async def test_what_would_be_refused_again_is_not_asked_again(served: ServedStandIn, status: int, kind: Any) -> None:
    served.stand_in.faults = [respond_with(status, "some-code")]
    async with Feed(served.url, KEY) as feed:
        with pytest.raises(kind, match=f"returned {status} some-code: Made up.") as caught:
            await anext(feed.changes(["listings.0.1"]))
    assert served.stand_in.faults == []
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [302, 307])
async def test_the_key_goes_nowhere_else(served: ServedStandIn, status: int) -> None:
    seen: list[Request] = []

    async def elsewhere(request: Request) -> Reply:
        seen.append(request)
        return Reply()

    async with serving(http(elsewhere)) as other:

        async def redirect(_: Request) -> Reply:
            return Reply(status=status, body=b"Found", headers={"Location": f"{other.url}/v1/changes"})

        served.stand_in.faults = [redirect]
        async with Feed(served.url, KEY) as feed:
            with pytest.raises(FeedRequestRejected, match=rf"returned {status}\. Is this the address of the service"):
                await anext(feed.changes())
    assert (seen, len(served.stand_in.asked)) == ([], 1)
