"""What a copy holds of a resource, summed up by bucket: what the service's digest is compared with."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from consumer.proof import bucket, digest, record_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from consumer.copies.copy import Copy

_BUCKETS = 65_536


@dataclass
class Holding:
    """Counts and sums of the 65,536 buckets, the contents in those that were wanted, and rows that were damaged."""

    counts: array[int] = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
    sums: array[int] = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
    contents: dict[str, dict[str, str]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def below(self, prefix: str) -> tuple[int, str]:
        """Return count and digest of the buckets that begin with up to 4 hexadecimal digits."""
        width = 16 ** (4 - len(prefix))
        first = int(prefix or "0", 16) * width
        buckets = slice(first, first + width)
        return sum(self.counts[buckets]), digest(sum(self.sums[buckets]))

    def prefixes(self, above: str, length: int) -> Iterator[str]:
        """Yield the prefixes of a length below another one where something is held."""
        for number in range(16 ** (length - len(above))):
            prefix = f"{above}{number:0{length - len(above)}x}"
            if self.below(prefix)[0]:
                yield prefix


def holding(copy: Copy, resource: str, wanted: Collection[str] = ()) -> Holding:
    """Read everything that is held of a resource; `wanted` are buckets of 4 digits of which the contents are kept."""
    found = Holding(contents={prefix: {} for prefix in wanted})
    for row in copy.rows(resource):
        at = bucket(row.id)
        found.counts[at] += 1
        found.sums[at] = (found.sums[at] + record_hash(row.id, row.content)) % 2**64
        if (contents := found.contents.get(f"{at:04x}")) is not None:
            contents[row.id] = row.content
        if not row.is_sound:
            found.damaged.append(row.id)
    return found
