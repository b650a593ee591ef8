"""Keys with a display licence: copies follow what sellers opt out of, and are proven by the digest of that view."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from mappings import COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.visibility import ADDRESS_MEMBERS, DisplayLicence
from service.keys.store import KeyGrant
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import ConsumerCopy, FeedClient, JsonObject, company, deleted_listing, source_time
from tests.feed.test_earlier_indices import check_health, earlier_version
from tests.indexer.conftest import Bench, bench
from tests.records import deletion, envelope

__all__ = ["bench"]

_GRANTS = {
    "plain": KeyGrant("plain", companies=("a",), rate=None),
    "idx": KeyGrant("idx", companies=("a",), rate=None, display=DisplayLicence.IDX),
    "poor": KeyGrant("poor", companies=("a",), rate=None, display=DisplayLicence.IDX, fields=()),
    "all": KeyGrant("all", all_companies=True, rate=None, display=DisplayLicence.IDX),
}
_KEYS = ("idx", "poor", "all")
_HELD_BACK: JsonObject = {"InternetEntireListingDisplayYN": False}
_NO_ADDRESS: JsonObject = {"InternetAddressDisplayYN": False}
_PATHS = (
    "changes",
    "snapshot/listings",
    "digest/listings",
    "listings?platform_company_id=a&updated_since=0",
    "listings/L1",
    "reso/Property",
    "reso/Property('L1')",
)


def _listing(identifier: str, second: int = 0, resource: Resource = LISTING, /, **record: Any) -> JsonObject:
    place = {"Latitude": "47.5", "Longitude": "-122.3"}
    named = {"PlatformListingId": identifier, **place, **record}
    return envelope(resource, named, updated_at=source_time(second), platform_company_id="a")


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[FeedClient]:
    """Listings and sold listings of which some are withheld, some without an address, and some both."""
    choices = [{}, _HELD_BACK, _NO_ADDRESS, _HELD_BACK | _NO_ADDRESS, _unknown()]
    lines = [_listing(f"L{number}", **choices[number % 5]) for number in range(10)]
    sold = [_listing(f"S{number}", 0, SOLD_LISTING, **choices[number % 5]) for number in range(5)]
    await bench.build({COMPANY: [company("a")], LISTING: lines, SOLD_LISTING: sold})
    async with serve_feed(bench, grants=_GRANTS) as feed:
        yield feed


def _unknown() -> JsonObject:
    return {"InternetEntireListingDisplayYN": None, "InternetAddressDisplayYN": None}


async def _copies(feed: FeedClient) -> dict[str, ConsumerCopy]:
    copies = {key: ConsumerCopy("listings") for key in _KEYS}
    for key, copy in copies.items():
        copy.load(await feed.snapshot("listings", key))
    return copies


async def _follow(feed: FeedClient, copies: dict[str, ConsumerCopy]) -> list[tuple[str, str]]:
    """Bring all copies up to date, prove them, and return the changes of the first: identifier, reason or address."""
    seen: list[list[tuple[str, str]]] = []
    for key, copy in copies.items():
        changes, copy.token = await feed.changes(copy.token, key)
        copy.apply(changes)
        digest = await feed.json("digest/listings", key)
        assert copy.digest(copy.records) == (digest["count"], digest["digest"]), key
        assert await _bucketed(feed, key, copy) == {name: content for name, (content, _) in copy.records.items()}
        fresh = ConsumerCopy("listings")
        fresh.load(await feed.snapshot("listings", key))
        assert fresh.records == copy.records, key
        seen.append([(line["id"], line.get("reason") or str(line["record"]["Address"])) for line in changes])
    assert all(each == seen[0] for each in seen)
    return seen[0]


async def _bucketed(feed: FeedClient, key: str, copy: ConsumerCopy) -> dict[str, str]:
    names = {*copy.records, *(f"L{number}" for number in range(10))}
    fine = ",".join(sorted({hashlib.sha256(name.encode()).hexdigest()[:4] for name in names}))
    digest = await feed.json("digest/listings", key, prefixes=fine)
    return {record["id"]: record["content"] for bucket in digest["buckets"] for record in bucket["records"]}


async def test_snapshots_lack_what_is_withheld_and_addresses_that_are_hidden(feed: FeedClient) -> None:
    for key in _KEYS:
        lines = (await feed.snapshot("listings", key))[1:-1]
        assert [line["id"] for line in lines] == ["L0", "L2", "L4", "L5", "L7", "L9"]
        empty = {line["id"]: {name for name in ADDRESS_MEMBERS if line["record"][name] is None} for line in lines}
        assert empty == {name: ADDRESS_MEMBERS if name in {"L2", "L7"} else {"Address2"} for name in empty}
        sold = (await feed.snapshot("sold_listings", key))[1:-1]
        assert [line["id"] for line in sold] == ["S0", "S2", "S4"]
        assert {name for name in ADDRESS_MEMBERS if sold[1]["record"][name] is not None} == set()
    assert len((await feed.snapshot("listings", "plain"))[1:-1]) == 10


async def test_changes_from_the_beginning_have_tombstones_for_what_is_withheld(feed: FeedClient) -> None:
    changes, _ = await feed.changes(None, "idx", resources="listings,sold_listings")
    held_back = [line for line in changes if line["id"] in {"L1", "L3", "L6", "L8", "S1", "S3"}]
    assert len(held_back) == 6
    assert {line["reason"] for line in held_back} == {"withheld"}
    assert all({*line} == {"resource", "company", "id", "sequence", "time", "reason"} for line in held_back)
    assert [line["id"] for line in changes] == [*(f"L{at}" for at in range(10)), *(f"S{at}" for at in range(5))]


async def test_a_follower_removes_what_is_withheld_and_gets_it_back(feed: FeedClient) -> None:
    copies = await _copies(feed)
    await feed.update(_listing("L0", 1, **_HELD_BACK))
    assert await _follow(feed, copies) == [("L0", "withheld")]
    await feed.update(_listing("L0", 2, **_HELD_BACK, ListPrice=5))
    assert await _follow(feed, copies) == []
    await feed.update(_listing("L0", 3, ListPrice=6))
    assert await _follow(feed, copies) == [("L0", "Address of a test")]
    await feed.update(_listing("L0", 4, **_NO_ADDRESS))
    assert await _follow(feed, copies) == [("L0", "None")]
    await feed.update(_listing("L0", 5))
    assert await _follow(feed, copies) == [("L0", "Address of a test")]
    await feed.update(_listing("L0", 6, **_HELD_BACK))
    await _follow(feed, copies)
    await feed.update(deleted_listing("L0", "a", 7), _listing("L1", 7))
    assert await _follow(feed, copies) == [("L0", "deleted"), ("L1", "Address of a test")]


async def test_a_withheld_listing_off_the_market_is_withheld(feed: FeedClient) -> None:
    token = await feed.token("idx", market_status="on-market")
    await feed.update(_listing("L0", 1, **_HELD_BACK, Status="Expired"))
    changes, _ = await feed.changes(token, "idx", market_status="on-market")
    assert [(line["id"], line["reason"]) for line in changes] == [("L0", "withheld")]


async def test_a_rebuild_keeps_the_view_and_its_hashes(feed: FeedClient) -> None:
    copies = await _copies(feed)
    before = {key: dict(copy.records) for key, copy in copies.items()}
    lines = [_listing(f"L{number}", **_NO_ADDRESS) for number in (2, 7)]
    await feed.bench.build({COMPANY: [company("a")], LISTING: lines}, force=True)
    await _follow(feed, copies)
    for key, copy in copies.items():
        assert copy.records == {name: before[key][name] for name in ("L2", "L7")}


async def test_a_token_of_another_licence_is_void(feed: FeedClient) -> None:
    token = await feed.token("plain")
    assert await feed.problem("changes", "idx", since=token) == (410, "token-expired")
    token = await feed.token("idx")
    assert await feed.problem("changes", "plain", since=token) == (410, "token-expired")


async def test_other_resources_are_the_same_for_both_keys(feed: FeedClient) -> None:
    assert (await feed.snapshot("companies", "idx"))[1:] == (await feed.snapshot("companies", "plain"))[1:]


async def test_the_events_of_withheld_listings_are_those_of_deleted_ones(feed: FeedClient) -> None:
    url = "reso/EntityEvent?$filter=ResourceRecordKey eq 'L0'"
    (before,) = (await feed.json(url, "idx"))["value"]
    await feed.update(_listing("L0", 1, **_HELD_BACK))
    (after,) = (await feed.json(url, "idx"))["value"]
    assert after["EntityEventSequence"] > before["EntityEventSequence"]
    assert (await feed.get("reso/Property('L0')", "idx"))[0] == 404
    gone = deletion(LISTING, "L2", source_time(1)) | {"platform_company_id": "a"}
    await feed.update(gone)
    (deleted,) = (await feed.json(url.replace("L0", "L2"), "idx"))["value"]
    assert {*deleted} == {*after}


async def test_an_index_without_the_switches_serves_no_key_with_a_licence(
    feed: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [_listing("L1", **_HELD_BACK), _listing("L2", **_NO_ADDRESS), *(_listing(f"L{at}") for at in (3, 4, 5))]
    with earlier_version(monkeypatch, has_display=False):
        assert (await feed.bench.build({COMPANY: [company("a")], LISTING: lines}, force=True)).exit_code == 0
        await feed.update(_listing("L4", 9, **_HELD_BACK), _listing("L5", 9, **_NO_ADDRESS))
    # Before the check of indices, which runs every few seconds, and after it.
    for has_checked in (False, True):
        for path in _PATHS:
            status, body = await feed.get(path, "idx")
            answer: dict[str, Any] = orjson.loads(body)
            detail = answer.get("detail") or answer["error"]["message"]
            assert status == 503, (path, has_checked)
            assert not has_checked or "brokerage index reindex" in detail, path
            assert (await feed.get(path, "plain"))[0] == 200, path
        await check_health(feed)
    assert (await feed.bench.build({COMPANY: [company("a")], LISTING: lines}, force=True)).exit_code == 0
    # The rebuild copied the newer states of L4 and L5 from the earlier index.
    await check_health(feed)
    copies = await _copies(feed)
    assert {*copies["idx"].records} == {"L2", "L3", "L5"}
    assert copies["idx"].records["L5"][1]["Address"] is None
    await _follow(feed, copies)
    before = copies["idx"].records["L5"]
    await feed.update(_listing("L5", 10, **_NO_ADDRESS, ListPrice=9))
    await feed.update(_listing("L5", 11, **_NO_ADDRESS))
    await _follow(feed, copies)
    assert copies["idx"].records["L5"] == before
