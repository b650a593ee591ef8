"""The service in front of several shards: which of them a request asks, and that its answer is that of one shard."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from mappings import COMPANY, LISTING, SOLD_LISTING
from service.search.engine import SearchEngine
from service.services import SERVICES
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import FeedClient, company, listing
from tests.indexer.conftest import Bench
from tests.internals import known_shards

SHARDS = 7
NUMBERS = range(40)
# The company b has three quarters of the records.
LINES = [listing(f"L{at:02}", "a" if at < 10 else "b", at, price=at) for at in NUMBERS]
EVERY = [f"L{at:02}" for at in NUMBERS]
IN_B = [f"L{at:02}" for at in NUMBERS if at >= 10]
COMPANIES = [company(key) for key in "abc"]
_ROUTING = re.compile(r"&routing=([0-9,]+)")


@pytest.fixture(scope="module")
def shards() -> int:
    """Seven: the company a is within two of them, b within six."""
    return SHARDS


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[FeedClient]:
    """Listings that a test may change, and the service over them."""
    async with open_served(bench) as feed:
        yield feed


@pytest.fixture(scope="module")
async def unchanged(module_bench: Bench) -> AsyncIterator[FeedClient]:
    """The same for tests that only read."""
    async with open_served(module_bench) as feed:
        yield feed


@asynccontextmanager
async def open_served(bench: Bench) -> AsyncIterator[FeedClient]:
    """Index forty listings of two companies, and run the service over them, which knows the shards."""
    summary = await bench.build({COMPANY: COMPANIES, LISTING: LINES, SOLD_LISTING: []})
    assert summary.exit_code == 0
    async with serve_feed(bench) as feed:
        assert await listed(feed, "all") == EVERY
        assert engine(feed).shards.get(bench.connection.alias(LISTING)) is not None
        yield feed


def engine(feed: FeedClient) -> SearchEngine:
    """Return the engine of the service."""
    found: SearchEngine = feed.http.server.app[SERVICES].engine  # type: ignore[attr-defined]
    return found


def asked_shards(feed: FeedClient, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return a list that gets for each search or read of listings how many shards were asked, None for all."""
    asked, served = list[int | None](), engine(feed)
    send, name = served.request, feed.bench.connection.alias(LISTING)

    async def noted(method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        if target.startswith(f"/{name}") and ("/_search" in target or "/_pit" in target):
            routing = _ROUTING.search(target)
            asked.append(len(routing[1].split(",")) if routing else None)
        if target.startswith(f"/{name}") and "/_mget" in target:
            places = {place["routing"] for place in orjson.loads(body or b"")["docs"]}
            asked.append(len(places) if len(places) < SHARDS else None)
        return await send(method, target, body)

    monkeypatch.setattr(served, "request", noted)
    return asked


async def walk(feed: FeedClient, key: str, size: int, **parameters: object) -> list[str]:
    """Return the identifiers of a walk of the company that is named like the key."""
    found: list[str] = []
    parameters |= {"platform_company_id": key, "updated_since": 1}
    while True:
        after = found[-1] if found else None
        page = await feed.json("listings", key, page_size=size, last_platform_listing_id=after, **parameters)
        found += [each["PlatformListingId"] for each in page["Listings"]]
        if page["FinalPage"]:
            return found


async def listed(feed: FeedClient, key: str) -> list[str]:
    """Return the identifiers of all listings that a key may read, by the RESO Web API."""
    answer = await feed.json("reso/Property", key, **{"$select": "ListingKey", "$filter": "StandardStatus eq 'Active'"})
    return [each["ListingKey"] for each in answer["value"]]


@pytest.mark.parametrize("size", [1, 3, 7, 30, 200])
@pytest.mark.parametrize("brief", [None, "true"])
async def test_pages_of_a_company_cross_its_shards_in_order(
    unchanged: FeedClient, size: int, brief: str | None
) -> None:
    """Whatever the size of the pages."""
    assert await walk(unchanged, "b", size, timestamps_only=brief) == IN_B


async def test_a_page_of_a_company_asks_one_shard_and_the_next_at_a_cut(
    unchanged: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard of its cursor first."""
    asked = asked_shards(unchanged, monkeypatch)
    pages: list[int] = []
    for start in IN_B[:-1]:
        before = len(asked)
        await unchanged.json(
            "listings", "b", page_size=1, platform_company_id="b", updated_since=1, last_platform_listing_id=start
        )
        pages.append(len(asked) - before)
    assert set(asked) == {1}
    # A page of one record reads two, so at a cut two pages need the next shard; before the first cut there is one page.
    assert sum(count == 2 for count in pages) == 1 + 2 * 4
    assert set(pages) == {1, 2}


async def test_other_requests_ask_the_shards_of_their_companies(
    unchanged: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All shards without companies in the scope."""
    asked = asked_shards(unchanged, monkeypatch)
    for path in ("changes", "digest/listings", "snapshot/listings"):
        for key, expected in (("a", {2}), ("b", {6}), ("all", {None})):
            asked.clear()
            status, body = await unchanged.get(path, key)
            assert (status, path, key) == (200, path, key), body
            assert set(asked) <= expected, (path, key)
            assert asked or path == "changes"


async def test_a_show_asks_the_shards_that_can_have_the_record(
    unchanged: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each company, and without a scope all shards for a record that no known company has."""
    asked = asked_shards(unchanged, monkeypatch)
    for name, key, status, expected in (
        ("L20", "a", 404, [1]),
        ("L20", "b", 200, [1]),
        ("L20", "ab", 200, [2]),
        ("L20", "all", 200, [3]),
        ("none", "all", 404, [2, None]),
    ):
        asked.clear()
        assert (await unchanged.get(f"listings/{name}", key))[0] == status
        assert asked == expected, (name, key)


async def test_a_record_of_a_company_that_is_not_known_yet_is_shown(
    served: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes know companies for some seconds."""
    directory = served.http.server.app[SERVICES].directory  # type: ignore[attr-defined]
    earlier = await directory.get()

    async def outdated() -> object:
        return earlier

    monkeypatch.setattr(directory, "get", outdated)
    await served.bench.update({COMPANY: [company("A")], LISTING: [listing("N0", "A", 100)]})
    assert (await served.get("listings/N0", "all"))[0] == 200


async def test_everything_is_returned_as_from_one_shard(unchanged: FeedClient) -> None:
    """Snapshot, digest and changes agree with each other."""
    for key, expected in (("a", 10), ("b", 30), ("ab", 40), ("all", 40)):
        lines = await unchanged.snapshot("listings", key)
        digest = await unchanged.json("digest/listings", key)
        changes, _ = await unchanged.changes(None, key, resources="listings", page_size=7)
        assert (lines[0]["count"], lines[-1]["count"], digest["count"], len(changes)) == (expected,) * 4
        assert (lines[-1]["digest"], digest["unsettled"]) == (digest["digest"], 0)
        assert sorted(each["id"] for each in changes) == sorted(line["id"] for line in lines[1:-1])
    resent = await unchanged.snapshot("listings", "ab", after="b:L20")
    assert [line["id"] for line in resent[1:-1]] == [f"L{at}" for at in range(21, 40)]


@pytest.mark.parametrize("wanted", ["1", "3", "5"])
async def test_a_swap_to_other_shards_is_noticed_by_the_next_search(served: FeedClient, wanted: str) -> None:
    """The ranges that the service knows are of the generation before, which still exists and has one more record."""
    known, alias = engine(served).shards, served.bench.connection.alias(LISTING)
    served_shards = known_shards(known)
    outdated = served_shards[alias]
    summary = await served.bench.build({COMPANY: COMPANIES, LISTING: LINES[:-1]}, shards=(wanted,), force=True)
    assert summary.exit_code == 0
    served_shards[alias] = outdated
    assert await walk(served, "b", 4) == IN_B[:-1]
    assert len(await served.snapshot("listings", "a")) == 12
    assert await listed(served, "all") == EVERY[:-1]
    now = known.get(alias)
    assert (now.ranges.count if now else 1) == int(wanted)
    assert now != outdated


async def test_a_service_that_expects_one_shard_notices_several(unchanged: FeedClient) -> None:
    """As after the first rebuild with several shards."""
    known, alias = engine(unchanged).shards, unchanged.bench.connection.alias(LISTING)
    for read in (lambda: listed(unchanged, "all"), lambda: unchanged.snapshot("listings", "ab")):
        known_shards(known).clear()
        await read()
        assert known.get(alias) is not None


async def test_records_that_move_are_followed_and_found_once(served: FeedClient) -> None:
    """By consumers of each company and of all, by shows and by pages."""
    tokens = {key: await served.token(key, resources="listings") for key in ("a", "b", "ab")}
    await served.update(listing("L05", "b", 100, price=5), listing("L30", "a", 100, price=30))
    assert await served.summaries(tokens["ab"], "ab") == [("L05", 5), ("L30", 30)]
    assert sorted(await served.summaries(tokens["a"], "a"), key=str) == [("L05", "out_of_scope"), ("L30", 30)]
    assert sorted(await served.summaries(tokens["b"], "b"), key=str) == [("L05", 5), ("L30", "out_of_scope")]
    in_b = sorted({*IN_B, "L05"} - {"L30"})
    assert await walk(served, "b", 4) == in_b
    assert await listed(served, "ab") == EVERY
    counts: dict[str, Any] = {key: (await served.json("digest/listings", key))["count"] for key in ("a", "b", "all")}
    assert counts == {"a": 10, "b": 30, "all": 40}
    for key, status in (("a", 404), ("b", 200), ("all", 200)):
        assert (await served.get("listings/L05", key))[0] == status
    assert [line["id"] for line in (await served.snapshot("listings", "b"))[1:-1]] == in_b


async def test_events_are_read_as_the_ledger_has_them(served: FeedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may know an earlier mark than the ledger, at which a record had not yet changed its shard."""
    services = served.http.server.app[SERVICES]  # type: ignore[attr-defined]
    (last,) = await events(served, orderby="EntityEventSequence desc", top=1)
    earlier = await services.marks[LISTING].get_renewed()
    await served.update(listing("L02", "b", 100, price=5))

    async def outdated() -> object:
        return earlier

    following = {"filter": f"EntityEventSequence gt {last['EntityEventSequence']}"}
    with monkeypatch.context() as stale:
        stale.setattr(services.marks[LISTING], "get_renewed", outdated)
        found = await events(served, **following)
    assert [each["ResourceRecordKey"] for each in found] == ["L02", "L02"]
    assert found == await events(served, **following)


async def events(feed: FeedClient, **options: object) -> list[dict[str, Any]]:
    """Return the events that the key of two companies may read."""
    answer = await feed.json("reso/EntityEvent", "ab", **{f"${name}": value for name, value in options.items()})
    return list(answer["value"])
