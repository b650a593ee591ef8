"""The fragmentation of an index, from statistics of the copies of its shards."""

from typing import Any

import pytest

from cluster.index_state import IndexFragmentation, read_fragmentation
from tests.internals import Internals


def copy(deleted: int, segments: int = 1, count: int = 90) -> dict[str, Any]:
    return {"docs": {"count": count, "deleted": deleted}, "segments": {"count": segments}}


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        ({}, IndexFragmentation(0.0, 0, 0, 0)),
        ({"0": []}, IndexFragmentation(0.0, 0, 0, 0)),
        ({"0": [copy(0, count=0)]}, IndexFragmentation(0.0, 1, 1, 0)),
        ({"0": [{}]}, IndexFragmentation(0.0, 0, 1, 0)),
        ({"0": [copy(0), copy(10)], "1": [copy(0, 3)]}, IndexFragmentation(0.1, 3, 2, 1)),
        ({"0": [copy(1, count=99)]}, IndexFragmentation(0.01, 1, 1, 0)),
        ({"0": [copy(0, 50)], "1": [copy(0, 51)]}, IndexFragmentation(0.0, 51, 2, 1)),
    ],
)
def test_the_most_fragmented_copy_of_a_shard_counts(
    shards: dict[str, Any], expected: IndexFragmentation, internals: Internals
) -> None:
    internals(fewest_deleted=1)
    fragmentation = read_fragmentation(shards)
    assert fragmentation == expected
    assert fragmentation.is_fragmented is (expected.fragmented_shards > 0)


@pytest.mark.parametrize(("deleted", "is_fragmented"), [(99, False), (100, True)])
def test_a_shard_with_few_gaps_is_not_fragmented(deleted: int, *, is_fragmented: bool) -> None:
    assert read_fragmentation({"0": [copy(deleted)]}).is_fragmented is is_fragmented
