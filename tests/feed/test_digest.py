"""Digests: what a consumer adds up itself, bucket by bucket, down to the records."""

import hashlib
from collections import defaultdict

import pytest

from mappings import COMPANY, LISTING
from tests.feed.feed_client import ConsumerCopy, FeedClient, StoredRecord, company, listing
from tests.internals import Internals

_MANY = 300


def bucketed(records: dict[str, StoredRecord], digits: int) -> dict[str, tuple[int, str]]:
    """Return count and digest of each bucket of a copy, by the published definition."""
    buckets: dict[str, dict[str, StoredRecord]] = defaultdict(dict)
    for name, kept in records.items():
        buckets[hashlib.sha256(name.encode()).hexdigest()[:digits]][name] = kept
    return {prefix: ConsumerCopy.digest(members) for prefix, members in sorted(buckets.items())}


@pytest.fixture
async def copy(feed: FeedClient) -> ConsumerCopy:
    """A copy of some hundred listings of two companies, as the key of the first has them."""
    lines = [listing(f"L{at}", "ab"[at % 3 == 0], price=at) for at in range(_MANY)]
    await feed.bench.build({COMPANY: [company(key) for key in "abc"], LISTING: lines}, force=True)
    copy = ConsumerCopy("listings")
    copy.load(await feed.snapshot("listings"))
    return copy


async def test_a_consumer_comes_to_the_same_sums_at_every_depth(feed: FeedClient, copy: ConsumerCopy) -> None:
    everything = await feed.json("digest/listings")
    assert (everything["count"], everything["digest"]) == ConsumerCopy.digest(copy.records)
    assert {each["prefix"]: (each["count"], each["digest"]) for each in everything["buckets"]} == bucketed(
        copy.records, 2
    )
    prefixes = [each["prefix"] for each in everything["buckets"]][:64]
    below = await feed.json("digest/listings", prefixes=",".join(prefixes))
    expected = {prefix: sums for prefix, sums in bucketed(copy.records, 4).items() if prefix[:2] in prefixes}
    assert {each["prefix"]: (each["count"], each["digest"]) for each in below["buckets"]} == expected
    finest = [each["prefix"] for each in below["buckets"]][:64]
    listed = await feed.json("digest/listings", prefixes=",".join(finest))
    assert {each["prefix"]: (each["count"], each["digest"]) for each in listed["buckets"]} == {
        prefix: expected[prefix] for prefix in finest
    }
    members = {each["id"]: each["content"] for bucket in listed["buckets"] for each in bucket["records"]}
    assert members.items() <= {name: kept[0] for name, kept in copy.records.items()}.items()
    assert len(members) == listed["count"]


async def test_what_differs_is_found_by_three_requests(feed: FeedClient, copy: ConsumerCopy) -> None:
    await feed.update(listing("L1", "a", 1, price=7), listing("L2", "b", 1), listing("new", "a", 1))
    differing: set[str] = set()
    for digits in (2, 4):
        asked = {"prefixes": ",".join(sorted(differing))} if differing else {}
        answer = await feed.json("digest/listings", **asked)
        theirs = {each["prefix"]: (each["count"], each["digest"]) for each in answer["buckets"]}
        ours = {
            each: sums for each, sums in bucketed(copy.records, digits).items() if not asked or each[:2] in differing
        }
        differing = {prefix for prefix in ours.keys() | theirs.keys() if ours.get(prefix) != theirs.get(prefix)}
    listed = await feed.json("digest/listings", prefixes=",".join(sorted(differing)))
    members = {each["id"]: each["content"] for bucket in listed["buckets"] for each in bucket["records"]}
    mine = {name: kept[0] for name, kept in copy.records.items()}
    assert {name for name, content in members.items() if mine.get(name) != content} == {"L1", "new"}
    buckets = {hashlib.sha256(name.encode()).hexdigest()[:4] for name in ("L1", "L2", "new")}
    assert differing == buckets
    assert answer["token"]


async def test_a_rebuild_of_the_same_and_a_move_there_and_back_change_no_digest(
    feed: FeedClient, copy: ConsumerCopy
) -> None:
    await feed.update(listing("L1", "b", 1, price=1))
    assert (await feed.json("digest/listings"))["count"] == len(copy.records) - 1
    await feed.update(listing("L1", "a", 2, price=1))
    answer = await feed.json("digest/listings")
    assert (answer["count"], answer["digest"]) == ConsumerCopy.digest(copy.records)


async def test_more_records_than_one_response_holds_are_requested_in_parts(
    feed: FeedClient, copy: ConsumerCopy, internals: Internals
) -> None:
    internals(digest_most_records=3)
    names = {hashlib.sha256(name.encode()).hexdigest()[:4] for name in list(copy.records)[:4]}
    status, body = await feed.get("digest/listings", prefixes=",".join(names))
    assert (status, b"fewer" in body) == (400, True)


@pytest.mark.parametrize("prefixes", ["", "0", "000", "AB", "00,0000", "00,", ",".join(["00"] * 65), "gg"])
async def test_an_invalid_prefix_is_refused_with_its_parameter(unchanged: FeedClient, prefixes: str) -> None:
    status, body = await unchanged.get("digest/listings", prefixes=prefixes)
    assert (status, b'"parameter":"prefixes"' in body) == (400, True)
