"""How worn an index is: gaps that updates left in its shards, and segments, from Elasticsearch's statistics.

An updated record leaves a gap, a deleted document, where it was. A page whose records lie around a gap is read record
by record instead of in one sweep, so pages cost more and more until the segments are merged (decision 44).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.settings import SettingError, setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DELETED_SETTING, SEGMENTS_SETTING = "BROKERAGE_COMPACT_DELETED", "BROKERAGE_COMPACT_SEGMENTS"
# In a shard with fewer gaps, pages cost next to nothing more: one changed company of five does not justify a merge.
FEWEST_DELETED = 100
WEAR_METRICS = "docs,segments"
WEAR_FILTER = "indices.*.shards.*.docs,indices.*.shards.*.segments.count"


@dataclass(frozen=True)
class WearBounds:
    """What a copy of a shard may have before it counts as worn: a share of deleted documents, and segments."""

    deleted: float
    segments: int

    def __post_init__(self) -> None:
        """Raise SettingError for a bound that every index, or none, exceeds."""
        if not 0 <= self.deleted < 1:
            raise SettingError(f"{DELETED_SETTING}={self.deleted} must be a share, at least 0 and below 1.")
        if self.segments < 1:
            raise SettingError(f"{SEGMENTS_SETTING}={self.segments} must be at least 1.")


@dataclass(frozen=True)
class IndexWear:
    """The wear of an index: that of its most worn copy of a shard, and how many shards exceed the bounds.

    `deleted` is the share of deleted documents, from 0 to 1.
    """

    deleted: float
    segments: int
    shards: int
    worn_shards: int

    @property
    def is_worn(self) -> bool:
        """Whether a compaction is due."""
        return self.worn_shards > 0


def deleted_setting() -> Any:
    """Declare the bound for deleted documents, which indexer and service both read."""
    return setting(
        DELETED_SETTING, 0.01, "Share of deleted documents in a shard above which `index compact` merges its index."
    )


def segments_setting() -> Any:
    """Declare the bound for segments, which indexer and service both read."""
    return setting(SEGMENTS_SETTING, 50, "Segments in a shard above which `index compact` merges its index.")


def read_wear(shards: Mapping[str, Sequence[Mapping[str, Any]]], bounds: WearBounds) -> IndexWear:
    """Return the wear of an index from the `shards` of its statistics: the copies of each shard by its number."""
    worst = [(max(map(_deleted, copies)), max(map(_segments, copies))) for copies in shards.values() if copies]
    worn = [any(_is_worn(copy, bounds) for copy in copies) for copies in shards.values()]
    return IndexWear(
        deleted=max((deleted for deleted, _ in worst), default=0.0),
        segments=max((segments for _, segments in worst), default=0),
        shards=len(worst),
        worn_shards=sum(worn),
    )


def _is_worn(copy: Mapping[str, Any], bounds: WearBounds) -> bool:
    has_gaps = copy.get("docs", {}).get("deleted", 0) >= FEWEST_DELETED and _deleted(copy) > bounds.deleted
    return has_gaps or _segments(copy) > bounds.segments


def _deleted(copy: Mapping[str, Any]) -> float:
    docs = copy.get("docs", {})
    deleted, count = docs.get("deleted", 0), docs.get("count", 0)
    return float(deleted / (deleted + count)) if deleted else 0.0


def _segments(copy: Mapping[str, Any]) -> int:
    return int(copy.get("segments", {}).get("count", 0))


def wear_sentence(wear: IndexWear) -> str:
    """Return a sentence that says how worn an index is."""
    return (
        f"{wear.worn_shards} of {wear.shards} shards are worn: {wear.deleted:.1%} deleted documents, {wear.segments} "
        "segments at most. Pages cost more than after a rebuild."
    )
