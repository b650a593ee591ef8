"""The wear of an index, from statistics of the copies of its shards."""

from typing import Any

import pytest

import cluster.index_state as index_wear
from cluster.index_state import IndexWear, read_wear


def copy(deleted: int, segments: int = 1, count: int = 90) -> dict[str, Any]:
    """Return the statistics of a copy of a shard."""
    return {"docs": {"count": count, "deleted": deleted}, "segments": {"count": segments}}


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        ({}, IndexWear(0.0, 0, 0, 0)),
        ({"0": []}, IndexWear(0.0, 0, 0, 0)),
        ({"0": [copy(0, count=0)]}, IndexWear(0.0, 1, 1, 0)),
        ({"0": [{}]}, IndexWear(0.0, 0, 1, 0)),
        ({"0": [copy(0), copy(10)], "1": [copy(0, 3)]}, IndexWear(0.1, 3, 2, 1)),
        ({"0": [copy(1, count=99)]}, IndexWear(0.01, 1, 1, 0)),
        ({"0": [copy(0, 50)], "1": [copy(0, 51)]}, IndexWear(0.0, 51, 2, 1)),
    ],
)
def test_the_most_worn_copy_of_a_shard_counts(
    shards: dict[str, Any], expected: IndexWear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_wear, "FEWEST_DELETED", 1)
    wear = read_wear(shards)
    assert wear == expected
    assert wear.is_worn is (expected.worn_shards > 0)


@pytest.mark.parametrize(("deleted", "is_worn"), [(99, False), (100, True)])
def test_a_shard_with_few_gaps_is_not_worn(deleted: int, *, is_worn: bool) -> None:
    assert read_wear({"0": [copy(deleted)]}).is_worn is is_worn
