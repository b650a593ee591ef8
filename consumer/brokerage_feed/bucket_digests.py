"""Digests of a copied resource by bucket, for the comparison with those of the service."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from brokerage_feed.copies.copy_store import CopyStore
from brokerage_feed.record_hashes import bucket_of, format_digest, record_hash

_BUCKETS = 65_536


@dataclass
class BucketDigests:
    """Counts and sums of the 65,536 buckets, the contents of some of them, and the identifiers of damaged rows."""

    counts: array[int] = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
    sums: array[int] = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
    contents: dict[str, dict[str, str]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def digest_below(self, prefix: str) -> tuple[int, str]:
        """Return the count and digest of the buckets whose prefix begins with up to 4 hexadecimal digits."""
        width = 16 ** (4 - len(prefix))
        first = int(prefix or "0", 16) * width
        buckets = slice(first, first + width)
        return sum(self.counts[buckets]), format_digest(sum(self.sums[buckets]))

    def prefixes(self, above: str, length: int) -> Iterator[str]:
        """Yield the prefixes of a length below another one that have records."""
        for number in range(16 ** (length - len(above))):
            prefix = f"{above}{number:0{length - len(above)}x}"
            if self.digest_below(prefix)[0]:
                yield prefix


def compute_bucket_digests(copy: CopyStore, resource: str, detailed: Collection[str] = ()) -> BucketDigests:
    """Read a copied resource; keep the contents of the buckets in `detailed`, given by 4 hexadecimal digits."""
    digests = BucketDigests(contents={prefix: {} for prefix in detailed})
    for row in copy.rows(resource):
        bucket = bucket_of(row.id)
        digests.counts[bucket] += 1
        digests.sums[bucket] = (digests.sums[bucket] + record_hash(row.id, row.content)) % 2**64
        if (contents := digests.contents.get(f"{bucket:04x}")) is not None:
            contents[row.id] = row.content
        if not row.is_intact:
            digests.damaged.append(row.id)
    return digests
