"""The wear of an index, from statistics of the copies of its shards."""

from __future__ import annotations

from typing import Any

import pytest

from cluster import index_wear
from cluster.index_wear import IndexWear, WearBounds, read_wear
from cluster.settings import SettingError

BOUNDS = WearBounds(deleted=0.05, segments=9)


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
        ({"0": [copy(5, count=95)]}, IndexWear(0.05, 1, 1, 0)),
        ({"0": [copy(0, 9)], "1": [copy(0, 10)]}, IndexWear(0.0, 10, 2, 1)),
    ],
)
def test_the_most_worn_copy_of_a_shard_counts(
    shards: dict[str, Any], expected: IndexWear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_wear, "FEWEST_DELETED", 1)
    wear = read_wear(shards, BOUNDS)
    assert wear == expected
    assert wear.is_worn is (expected.worn_shards > 0)


@pytest.mark.parametrize(("deleted", "is_worn"), [(99, False), (100, True)])
def test_a_shard_with_few_gaps_is_not_worn(deleted: int, *, is_worn: bool) -> None:
    assert read_wear({"0": [copy(deleted)]}, BOUNDS).is_worn is is_worn


@pytest.mark.parametrize(("deleted", "segments"), [(1.0, 9), (-0.1, 9), (float("nan"), 9), (0.1, 0)])
def test_bounds_that_mean_nothing_are_refused(deleted: float, segments: int) -> None:
    with pytest.raises(SettingError, match="BROKERAGE_COMPACT_"):
        WearBounds(deleted, segments)
