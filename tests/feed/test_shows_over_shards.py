"""Shows are read by identifier, without a search: each record is found once, and only by those who may see it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from indexer.bulk import BulkSender
from mappings import COMPANY, LISTING
from mappings.shards import ShardRanges
from mappings.stored_document import feed_key
from mappings.visibility import DisplayLicence
from service.keys.store import KeyGrant
from service.search.placement import ShardTable
from service.services import SERVICES
from tests.feed.conftest import GRANTS, serve_feed
from tests.feed.feed_client import FeedClient, company, listing
from tests.indexer.conftest import Bench, live_ranges
from tests.internals import known_shards

COMPANIES = [company(key) for key in "abc"]
LINES = [listing(f"L{at:02}", "ab"[at // 10], at, price=at) for at in range(20)]


@pytest.fixture(params=[1, 4])
def shards(request: pytest.FixtureRequest) -> int:
    """One, and four: each company is in two of them."""
    count: int = request.param
    return count


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[FeedClient]:
    """Twenty listings of two companies, and the service over them, which knows the shards."""
    assert (await bench.build({COMPANY: COMPANIES, LISTING: LINES})).exit_code == 0
    licensed = KeyGrant("idx", companies=("a", "b"), rate=None, display=DisplayLicence.IDX)
    grants = {**GRANTS, "idx": licensed}
    async with serve_feed(bench, grants=grants) as feed:
        yield feed


async def statuses(feed: FeedClient, name: str) -> dict[str, int]:
    """Return the status of a show for each key."""
    return {key: (await feed.get(f"listings/{name}", key))[0] for key in ("a", "b", "ab", "all", "idx")}


def seen_by(*keys: str) -> dict[str, int]:
    """Return the statuses of a record that these keys may see."""
    return {key: 200 if key in keys else 404 for key in ("a", "b", "ab", "all", "idx")}


def table(feed: FeedClient) -> ShardTable:
    """Return the shards that the service knows."""
    found: ShardTable = feed.http.server.app[SERVICES].engine.shards  # type: ignore[attr-defined]
    return found


async def make_visible(bench: Bench, ranges: ShardRanges, name: str, companies: str) -> None:
    """Refresh the shards that a record of some companies is in, in their order."""
    for key in companies:
        routing = ranges.routing(feed_key(key, name))
        await bench.client.options(ignore_status=404).get(
            index=bench.connection.alias(LISTING), id="none", routing=routing, refresh=True
        )


async def prices_during_move(
    feed: FeedClient, monkeypatch: pytest.MonkeyPatch, moved: dict[str, Any], refreshed: tuple[str, str]
) -> list[Any]:
    """Apply an update, and return what shows said after each of its writes, while its mark was not published.

    `refreshed` are companies whose shards become visible after the second write, and after the third.
    """
    name, ranges = moved["record"]["PlatformListingId"], await live_ranges(feed.bench, LISTING)
    shown: list[Any] = []
    steps, original = iter(["", *refreshed]), BulkSender.send

    async def send(sender: BulkSender, writes: Any) -> Any:
        result = await original(sender, writes)
        if writes and sender.ranges == ranges:
            await make_visible(feed.bench, ranges, name, next(steps, ""))
            shown.extend([(await feed.json(f"listings/{name}", key))["ListPrice"] for key in ("ab", "all")])
        return result

    with monkeypatch.context() as watched:
        watched.setattr(BulkSender, "send", send)
        await feed.update(moved)
    return shown


async def test_a_record_is_seen_within_the_scope_and_the_licence(served: FeedClient) -> None:
    """Also after it was moved, held back and deleted."""
    assert await statuses(served, "L05") == seen_by("a", "ab", "all", "idx")
    held_back = listing("L05", "b", 100)
    held_back["record"]["InternetEntireListingDisplayYN"] = False
    await served.update(held_back)
    assert await statuses(served, "L05") == seen_by("b", "ab", "all")
    await served.update(listing("L05", "a", 200, price=7))
    assert await statuses(served, "L05") == seen_by("a", "ab", "all", "idx")
    await served.update(listing("L05", "c", 300))
    assert await statuses(served, "L05") == seen_by("all")
    await served.update(listing("L05", "c", 400) | {"deleted": True})
    assert await statuses(served, "L05") == seen_by()
    assert await statuses(served, "a%2FL05") == seen_by()


@pytest.mark.parametrize("shards", [4], indirect=True)
async def test_of_two_copies_the_one_of_the_mark_is_shown(served: FeedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever becomes visible first, until the mark is published and after."""
    # In the first of the four shards, and as records of b in the second.
    orders = {"L00": ("a", "b"), "L01": ("b", "a"), "L02": ("ab", ""), "L03": ("", "ab"), "L04": ("ba", "")}
    for at, (name, order) in enumerate(orders.items()):
        shown = await prices_during_move(served, monkeypatch, listing(name, "b", 100 + at, price=1_000), order)
        # After each write: the move, the new copy, the left one.
        assert (shown, order) == ([int(name[1:])] * 6, order)
        assert await statuses(served, name) == seen_by("b", "ab", "all", "idx")
        assert (await served.json(f"listings/{name}", "ab"))["ListPrice"] == 1_000


@pytest.mark.parametrize("shards", [4], indirect=True)
@pytest.mark.parametrize("wanted", ["1", "3", "5"])
@pytest.mark.parametrize("is_routed", [True, False])
async def test_a_swap_to_other_shards_is_noticed(served: FeedClient, wanted: str, is_routed: bool) -> None:
    """Also by a process that knew no alias which the swap removes. The earlier generation has one record more."""
    alias, known = served.bench.connection.alias(LISTING), table(served)
    assert await statuses(served, "L19") == seen_by("b", "ab", "all", "idx")
    outdated = known.get(alias)
    assert outdated is not None
    if not is_routed:
        outdated = replace(outdated, target=alias, is_routed=False)
    summary = await served.bench.build({COMPANY: COMPANIES, LISTING: LINES[:-1]}, shards=(wanted,), force=True)
    assert summary.exit_code == 0
    for name, expected in {
        **{f"L{at:02}": seen_by("b", "ab", "all", "idx") for at in (10, 13, 18)},
        "L19": seen_by(),
    }.items():
        for key, status in expected.items():
            known_shards(known)[alias] = outdated
            assert (name, key, (await served.get(f"listings/{name}", key))[0]) == (name, key, status)
            assert known.get(alias) != outdated


@pytest.mark.parametrize("shards", [4], indirect=True)
async def test_a_service_that_expects_one_shard_notices_several(served: FeedClient) -> None:
    """As after the first rebuild with several shards."""
    known = table(served)
    for key in ("a", "ab", "all"):
        known_shards(known).clear()
        assert (await served.get("listings/L05", key))[0] == 200
        assert known.get(served.bench.connection.alias(LISTING)) is not None
