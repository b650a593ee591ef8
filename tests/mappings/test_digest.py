"""The digest of a set: the same for the same records in any order and any split, another after any change."""

import struct
from collections.abc import Iterable
from functools import reduce
from hashlib import sha256
from operator import add

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mappings.stored_document import BUCKETS, COARSE_BUCKETS, Digest, bucket, coarse_bucket, record_hash, split_hash

Records = dict[str, int]

contents = st.integers(-(2**63), 2**63 - 1)
# Encodable as UTF-8, as every identifier of JSON is.
identifiers = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
records = st.dictionaries(identifiers, contents, max_size=20)
some_records = st.dictionaries(identifiers, contents, min_size=1, max_size=20)


def digest(items: Iterable[tuple[str, int]]) -> Digest:
    made = Digest()
    for identifier, content in items:
        made.add(identifier, content)
    return made


@given(records, st.randoms(use_true_random=False))
def test_order_does_not_matter(given: Records, random: object) -> None:
    shuffled = list(given.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert digest(shuffled) == digest(given.items())


@given(st.lists(st.lists(st.tuples(identifiers, contents), max_size=6), max_size=6))
def test_a_split_does_not_matter(parts: list[list[tuple[str, int]]]) -> None:
    whole = digest(item for part in parts for item in part)
    assert reduce(add, map(digest, parts), Digest()) == whole


@given(some_records, contents, st.data())
def test_a_changed_content_changes_it(given: Records, content: int, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(sorted(given)))
    assume(given[chosen] != content)
    assert digest((given | {chosen: content}).items()) != digest(given.items())


@given(records, identifiers, contents)
def test_an_added_or_lost_record_changes_it(given: Records, identifier: str, content: int) -> None:
    assume(identifier not in given)
    more = digest((given | {identifier: content}).items())
    assert more != digest(given.items())
    assert more.count == len(given) + 1


@given(some_records, identifiers, st.data())
def test_a_record_in_the_place_of_another_changes_it(given: Records, identifier: str, data: st.DataObject) -> None:
    assume(identifier not in given)
    chosen = data.draw(st.sampled_from(sorted(given)))
    swapped = {**given, identifier: given[chosen]}
    del swapped[chosen]
    assert digest(swapped.items()) != digest(given.items())


@given(identifiers, identifiers, contents, contents)
def test_exchanged_contents_change_it(one: str, other: str, first: int, second: int) -> None:
    assume(one != other)
    assume(first != second)
    assert digest([(one, first), (other, second)]) != digest([(one, second), (other, first)])


@given(identifiers, contents, contents)
def test_each_value_counts_and_so_does_its_place(identifier: str, first: int, second: int) -> None:
    assume(first != second)
    one, other = Digest(), Digest()
    one.add(identifier, first, second)
    other.add(identifier, second, first)
    assert one != other


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [("a", 0xCA97), ("b", 0x3E23), ("", 0xE3B0), ("ünï-☃", 0x92E1)],
)
def test_the_bucket_is_the_first_two_bytes_of_the_sha_256_and_the_coarse_one_the_first(
    identifier: str, expected: int
) -> None:
    assert (bucket(identifier), coarse_bucket(identifier)) == (expected, expected // 256)
    assert expected < BUCKETS


@given(identifiers, contents)
def test_the_hash_is_as_published(identifier: str, content: int) -> None:
    expected = sha256(struct.pack(">q", content) + identifier.encode()).digest()[:8]
    assert digest([(identifier, content)]) == Digest(1, int.from_bytes(expected, "big"))
    high, low = split_hash(record_hash(identifier, content))
    assert struct.pack(">II", high, low) == expected


def test_sums_stay_within_64_bits_and_buckets_are_all_used() -> None:
    names = [f"record {number}" for number in range(5000)]
    made = digest((name, 1) for name in names)
    assert made.count == 5000
    assert 0 <= made.total < 2**64
    assert {coarse_bucket(name) for name in names} == set(range(COARSE_BUCKETS))
