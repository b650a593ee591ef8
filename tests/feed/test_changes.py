"""What changed since a token: in order, once, whole, with what has gone and why."""

import asyncio
import math
from typing import Any

import pytest
from yarl import URL

from indexer.maintenance.inventory import prune
from indexer.rollback import rollback
from mappings import COMPANY, LISTING, OFFICE
from service.search.cached_value import CacheAges
from service.services import SERVICES
from tests.feed.feed_client import FeedClient, company, deleted_listing, listing, office, source_time
from tests.indexer.raw_documents import put_document
from tests.internals import Internals, keep_for


async def test_from_the_beginning_everything_comes_once_in_order(unchanged: FeedClient) -> None:
    changes, token = await unchanged.changes(None, "all", page_size=2)
    assert [(each["resource"], each["id"]) for each in changes] == [
        *(("companies", key) for key in "abc"),
        *(("offices", name) for name in ("O1", "O2")),
        *(("listings", f"L{at}") for at in range(6)),
    ]
    assert [each["sequence"] for each in changes[5:]] == sorted(each["sequence"] for each in changes[5:])
    assert await unchanged.summaries(token, "all") == []


async def test_a_change_is_the_record_as_its_index_answers_it(unchanged: FeedClient) -> None:
    changes, _ = await unchanged.changes(None, resources="listings")
    page = await unchanged.json("listings", platform_company_id="a", updated_since=1, market_status="all")
    assert [each["record"] for each in changes] == page["Listings"]
    assert {(each["company"], each["time"]) for each in changes} == {("a", "2026-01-03T00:00:00.000Z")}


async def test_only_what_has_changed_comes_and_deletions_are_seen(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", "a", 1, price=7), deleted_listing("L2", "a", 1), listing("L1", "b", 1, price=8))
    assert await feed.summaries(token) == [("L0", 7), ("L2", "deleted")]


async def test_a_rebuild_publishes_new_and_vanished_records_alone(feed: FeedClient) -> None:
    tokens = {key: await feed.token(key) for key in "ab"}
    same = [listing(f"L{at}", "ab"[at % 2], price=at) for at in range(5)]
    await feed.rebuild(*same, listing("L6", "a", 1, price=6), listing("L8", "b", 1))
    assert await feed.summaries(tokens["a"], "a") == [("L6", 6)]
    assert await feed.summaries(tokens["b"], "b") == [("L8", 1), ("L5", "deleted")]


async def test_what_moves_to_another_company_leaves_one_scope_and_enters_the_other(feed: FeedClient) -> None:
    tokens = {key: await feed.token(key) for key in ("a", "b", "ab", "all")}
    await feed.update(listing("L0", "b", 1, price=7))
    assert await feed.summaries(tokens["a"], "a") == [("L0", "out_of_scope")]
    assert await feed.summaries(tokens["b"], "b") == [("L0", 7)]
    assert await feed.summaries(tokens["ab"], "ab") == await feed.summaries(tokens["all"], "all") == [("L0", 7)]
    # Its changes elsewhere are outside the scope.
    token = await feed.token("a")
    await feed.update(listing("L0", "b", 2, price=9))
    await feed.update(deleted_listing("L0", "b", 3))
    assert await feed.summaries(token, "a") == []


async def test_a_listing_that_leaves_the_market_leaves_an_on_market_copy(feed: FeedClient) -> None:
    market = {"resources": "listings", "market_status": "on-market"}
    token = await feed.token("a", **market)
    await feed.update(listing("L0", "a", 1, status="Expired"), listing("L2", "a", 1, status="Pending", price=3))
    assert await feed.summaries(token, "a", **market) == [("L0", "off_market"), ("L2", 3)]
    assert await feed.summaries(await feed.token("a"), "a") == []
    await feed.update(listing("L0", "a", 2, status="Active", price=4))
    assert await feed.summaries(token, "a", **market) == [("L2", 3), ("L0", 4)]


async def test_a_deactivated_record_leaves_the_copy_unless_included(feed: FeedClient) -> None:
    token, whole = await feed.token(), await feed.token("a", include_deactivated=1)
    await feed.update(office("O1", "a", 1, deactivated=True), resource=OFFICE)
    assert await feed.summaries(token) == [("O1", "deactivated")]
    assert await feed.summaries(whole, include_deactivated=1) == [("O1", "here")]


async def test_nothing_is_returned_before_it_is_published(feed: FeedClient) -> None:
    """A document that can be searched, ahead of the mark, waits; else one below it could appear behind the token."""
    bench, token = feed.bench, await feed.token()
    mark = await bench.mark(LISTING)
    stored = (await bench.served(LISTING))["L0"]
    await feed.update(listing("L2", "a", 1, price=8))
    later = {**stored, "sequence": mark.sequence + 9}
    await put_document(bench.client, bench.connection.alias(LISTING), "L0", later)
    assert await feed.summaries(token) == [("L2", 8)]
    digest = await feed.json("digest/listings")
    assert (digest["count"], digest["unsettled"]) == (3, 1)


@pytest.mark.parametrize("is_kept_for_ever", [False, True])
async def test_a_waiting_request_returns_the_change(feed: FeedClient, is_kept_for_ever: bool) -> None:
    """However long a process caches marks, a waiting request refreshes them."""
    token = await feed.token()
    if is_kept_for_ever:
        keep_for(CacheAges(math.inf, math.inf), *feed.http.server.app[SERVICES].marks.values())  # type: ignore[attr-defined]
    waiting = asyncio.create_task(feed.json("changes", since=token, wait=30))
    await feed.update(listing("L0", "a", 1, price=7))
    assert [each["id"] for each in (await waiting)["changes"]] == ["L0"]


async def test_a_change_elsewhere_wakes_no_request_and_the_wait_times_out(feed: FeedClient) -> None:
    token = await feed.token()
    waiting = asyncio.create_task(feed.json("changes", since=token, wait=1))
    await feed.update(listing("L1", "b", 1, price=7))
    page = await waiting
    assert (page["changes"], page["at_end"]) == ([], True)
    assert await feed.summaries(page["next"]) == []


async def test_a_token_is_void_after_a_rollback(feed: FeedClient) -> None:
    await feed.rebuild(listing("L0", "a", 1, price=7))
    token, companies = await feed.token(), await feed.token("a", resources="companies")
    await rollback(feed.bench.engine(), LISTING)
    assert await feed.problem("changes", since=token) == (410, "token-expired")
    assert await feed.summaries(companies) == []
    assert await feed.summaries(await feed.token()) == []


async def test_a_token_is_void_once_deletions_behind_it_are_pruned(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(deleted_listing("L0", "a", 1))
    late = await feed.token()
    assert await feed.summaries(token) == [("L0", "deleted")]
    tombstones = (await prune(feed.bench.engine(tombstone_days=0))).tombstones
    assert tombstones == 1
    assert await feed.problem("changes", since=token) == (410, "token-expired")
    assert await feed.summaries(late) == []
    assert "L0" not in {each["id"] for each in (await feed.changes(None))[0]}


async def test_a_token_is_void_too_where_they_are_pruned_while_they_are_searched_for(
    feed: FeedClient, internals: Internals
) -> None:
    token, search = await feed.token(resources="listings"), internals.present("changes_search")
    await feed.update(deleted_listing("L0", "a", 1))

    async def late(*asked: Any) -> Any:
        await prune(feed.bench.engine(tombstone_days=0))
        return await search(*asked)

    internals(changes_search=late)
    assert await feed.problem("changes", since=token) == (410, "token-expired")


@pytest.mark.parametrize(
    ("key", "parameters"),
    [
        ("b", {}),
        ("ab", {}),
        ("all", {}),
        ("poor", {}),
        ("a", {"market_status": "on-market"}),
        ("a", {"include_deactivated": True}),
    ],
)
async def test_a_token_is_of_one_view_of_the_data(
    unchanged: FeedClient, key: str, parameters: dict[str, object]
) -> None:
    token = await unchanged.token("a")
    assert await unchanged.problem("changes", key, since=token, **parameters) == (410, "token-expired")
    assert await unchanged.summaries(token, "a", underscore_response=True) == []
    assert await unchanged.summaries(token, "all", platform_company_id="a") == []


async def test_a_parent_that_gets_a_child_is_another_scope(feed: FeedClient) -> None:
    later = {"parent_company_id": "c", "updated_at": source_time(1)}
    await feed.update(company("a") | later, resource=COMPANY)
    token = await feed.token("all", parent_company_id="c")
    await feed.update(company("b") | later, resource=COMPANY)
    assert await feed.problem("changes", "all", since=token, parent_company_id="c") == (410, "token-expired")


async def test_tokens_of_snapshots_go_on_together(feed: FeedClient) -> None:
    tokens = [(await feed.snapshot(name))[0]["token"] for name in ("listings", "offices")]
    await feed.update(listing("L0", "a", 1, price=7))
    await feed.update(office("O1", "a", 1), resource=OFFICE)
    assert await feed.summaries(",".join(tokens)) == [("O1", "here"), ("L0", 7)]
    assert await feed.summaries(",".join(tokens), resources="listings") == [("L0", 7)]


@pytest.mark.parametrize("text", ["x", "lAHE", "lAHECB89h1GiDMTTzmsChaWBCZMACAg", "a,,b", "ä", ""])
async def test_an_invalid_token_is_refused_with_its_parameter(unchanged: FeedClient, text: str) -> None:
    status, body = await unchanged.get("changes", since=text)
    assert status == 400
    assert b'"parameter":"since"' in body


async def test_a_resource_that_no_token_covers_or_two_do_is_refused(unchanged: FeedClient) -> None:
    token = await unchanged.token("a", resources="listings")
    assert await unchanged.problem("changes", since=token, resources="offices") == (400, "invalid-parameter")
    assert await unchanged.problem("changes", since=f"{token},{token}") == (400, "invalid-parameter")


async def test_the_link_leads_on_and_never_holds_the_key(unchanged: FeedClient) -> None:
    async with unchanged.http.get("/v1/changes", params={"page_size": "1", "api-key": unchanged.keys["a"]}) as first:
        link = URL(first.links["next"]["url"])
    assert unchanged.keys["a"] not in str(link)
    async with unchanged.http.get(link.relative(), headers={"x-api-key": unchanged.keys["a"]}) as second:
        assert [each["id"] for each in (await second.json())["changes"]] == ["O1"]


async def test_what_a_key_may_not_see_is_not_in_changes(unchanged: FeedClient) -> None:
    rich, _ = await unchanged.changes(None, "a", resources="listings")
    poor, _ = await unchanged.changes(None, "poor", resources="listings")
    assert {each["record"]["BuyerCommissionValue"] for each in rich} != {None}
    assert {each["record"]["BuyerCommissionValue"] for each in poor} == {None}
    assert {tuple(each["record"]) for each in rich} == {tuple(each["record"]) for each in poor}
