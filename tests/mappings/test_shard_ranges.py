"""Feed keys belong to exactly one range; writer and reader find it by the same function."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.shards import ONE_SHARD, ShardRanges, cut_evenly, murmur3, read_ranges, routing_values
from mappings.stored_document import feed_key

COMPANIES = ("acme", "acme-2", "acme_b", "b", "zeta")
keys = st.builds(feed_key, st.sampled_from(COMPANIES), st.text("Aaz09é:;-", min_size=1, max_size=6))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hell", 0x5A0CB7C3),
        ("hello", 0xD7C31989),
        ("hello w", 0x22AB2984),
        ("hello wo", 0xDF0CA123),
        ("hello wor", 0xE7744D61),
        ("The quick brown fox jumps over the lazy dog", 0xE07DB09C),
        ("The quick brown fox jumps over the lazy cog", 0x4E63D2AD),
    ],
)
def test_hashes_are_those_of_elasticsearch(text: str, expected: int) -> None:
    assert murmur3(text) == expected


@pytest.mark.parametrize("shards", [2, 3, 7, 24, 200])
def test_every_shard_has_a_routing_value_of_its_own(shards: int) -> None:
    """Found by trial, the same in every process."""
    values = routing_values(shards)
    assert len({*values}) == shards
    hashes = [murmur3(value) for value in values]
    assert [(number - 2**32 if number >= 2**31 else number) % shards for number in hashes] == list(range(shards))


@pytest.mark.parametrize(("key", "shard"), [("acme:l", 0), ("acme:m", 1), ("acme:ma", 1), ("acme:z", 1), ("b:a", 2)])
def test_a_shard_begins_with_the_key_of_its_cut(key: str, shard: int) -> None:
    assert ShardRanges(("acme:m", "b:a"), ("0", "1", "2")).shard(key) == shard


@given(st.lists(keys, max_size=60), st.integers(1, 9), keys)
def test_a_key_is_between_the_cuts_of_its_shard(sample: list[str], shards: int, key: str) -> None:
    """Cut points included below and excluded above."""
    ranges = cut_evenly(sample, shards)
    low, high = ("", *ranges.cuts)[ranges.shard(key)], (*ranges.cuts, chr(0x10FFFF))[ranges.shard(key)]
    assert low <= key < high
    assert ranges.routing(key) == (ranges.routings[ranges.shard(key)] if ranges.is_routed else None)


@given(st.lists(keys, max_size=60), st.integers(1, 9), keys)
def test_the_shards_of_a_company_hold_its_keys_and_no_others_do(sample: list[str], shards: int, key: str) -> None:
    ranges, (company, _, identifier) = cut_evenly(sample, shards), key.partition(":")
    assert ranges.shard(key) in ranges.company_shards(company)
    assert ranges.shard(key) == ranges.company_shards(company, identifier)[0]
    others = {ranges.shard(cut) for cut in ranges.cuts if cut.partition(":")[0] == company}
    assert others <= {*ranges.company_shards(company)}


def test_even_cuts_weigh_the_same_and_may_fall_within_a_company() -> None:
    """A company that has most records spans several shards."""
    sample = [feed_key("acme", f"{number:04d}") for number in range(900)] + [feed_key("b", "1")] * 100
    ranges = cut_evenly(sample, 5)
    assert ranges.cuts == ("acme:0200", "acme:0400", "acme:0600", "acme:0800")
    assert list(ranges.company_shards("acme", "0500")) == [2, 3, 4]
    assert list(ranges.company_shards("b")) == [4]
    assert ranges.companies_shards(["b", "acme"]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("sample", [[], ["acme:1"], ["acme:1"] * 10])
def test_fewer_keys_than_shards_make_fewer_ranges(sample: list[str]) -> None:
    """No shard stays empty by construction."""
    assert cut_evenly(sample, 3) == ONE_SHARD


def test_ranges_survive_the_mapping() -> None:
    """As the entry of `_meta`; without it there is one shard."""
    ranges = cut_evenly(["acme:1", "acme:2", "b:1"], 3)
    assert ranges.count == 3
    assert read_ranges({"resource": "listings", **ranges.meta}) == ranges
    assert read_ranges({"resource": "listings"}) == ONE_SHARD
    assert ONE_SHARD.meta == {}


@pytest.mark.parametrize(
    "entry",
    [
        {"cuts": ["b:1", "a:1"], "routings": ["0", "1", "2"]},
        {"cuts": ["a:1"], "routings": ["0"]},
        {"cuts": [], "routings": ["0"]},
        {"cuts": ["a:1"]},
        "",
    ],
)
def test_invalid_ranges_are_refused(entry: object) -> None:
    """A wrong shard would have no records."""
    with pytest.raises(ValueError, match="cut points in order"):
        read_ranges({"shards": entry})


def test_one_shard_needs_no_routing() -> None:
    assert ShardRanges().routing("acme:1") is None
    assert list(ShardRanges().company_shards("acme", "5")) == [0]
