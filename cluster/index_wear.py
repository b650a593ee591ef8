"""How worn an index is: gaps that updates left in its shards, and segments, from Elasticsearch's statistics.

An updated record leaves a gap, a deleted document, where it was. A page whose records lie around a gap is read record
by record instead of in one sweep, so pages cost more and more until the segments are merged (decision 44).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A copy of a shard is worn above this share of deleted documents: at one per cent, pages cost nearly as much more as at
# five. Below this number of gaps they cost next to nothing more: one changed company of five justifies no merge.
MAX_DELETED, FEWEST_DELETED = 0.01, 100
# Segments cost little; only an index that was built without BROKERAGE_MERGE_AFTER_BUILD has more.
MAX_SEGMENTS = 50
WEAR_METRICS = "docs,segments"
WEAR_FILTER = "indices.*.shards.*.docs,indices.*.shards.*.segments.count"


@dataclass(frozen=True)
class IndexWear:
    """The wear of an index: that of its most worn copy of a shard, and how many shards are worn.

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


def read_wear(shards: Mapping[str, Sequence[Mapping[str, Any]]]) -> IndexWear:
    """Return the wear of an index from the `shards` of its statistics: the copies of each shard by its number."""
    worst = [(max(map(_deleted, copies)), max(map(_segments, copies))) for copies in shards.values() if copies]
    worn = [any(map(_is_worn, copies)) for copies in shards.values()]
    return IndexWear(
        deleted=max((deleted for deleted, _ in worst), default=0.0),
        segments=max((segments for _, segments in worst), default=0),
        shards=len(worst),
        worn_shards=sum(worn),
    )


def _is_worn(copy: Mapping[str, Any]) -> bool:
    has_gaps = copy.get("docs", {}).get("deleted", 0) >= FEWEST_DELETED and _deleted(copy) > MAX_DELETED
    return has_gaps or _segments(copy) > MAX_SEGMENTS


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
