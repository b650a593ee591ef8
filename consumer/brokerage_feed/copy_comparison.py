"""Comparison of a copy with the service: one digest if they are equal, else down to the identifiers that differ.

An unequal bucket is inconclusive while the service has unpublished changes of it (`unsettled`), or if changes of it
arrived since the request. Such buckets are requested again.
"""

import asyncio
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from brokerage_feed.copy_updater import CopyUpdater, TouchedRecords
from brokerage_feed.errors import FeedRequestRejected
from brokerage_feed.messages import BucketSummary
from brokerage_feed.record_hashes import bucket_of, format_digest, record_hash
from brokerage_feed.sqlite_copy import SqliteCopy

_BUCKETS = 65_536
_ROUNDS = 6
# Long polling: the service responds once something is published, which settles the bucket.
_WAIT_SECONDS = 2
_PREFIXES_PER_REQUEST = 64
# About 4,000 of 1,000,000 records; more differing identifiers would not help.
_MAX_BUCKETS = 256


@dataclass
class BucketDigests:
    """Counts and sums of the 65,536 buckets, the contents of some of them, and the identifiers of damaged rows."""

    # Quoted: before Python 3.12 the class has no parameters.
    counts: "array[int]" = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
    sums: "array[int]" = field(default_factory=lambda: array("Q", bytes(8 * _BUCKETS)))
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


def _bucket_digests(copy: SqliteCopy, resource: str, detailed: Collection[str] = ()) -> BucketDigests:
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


@dataclass
class CopyDifferences:
    """Identifiers that differ, and the buckets of 4 digits that stayed inconclusive."""

    different: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)


async def compare_resource(pull: CopyUpdater, resource: str) -> CopyDifferences:
    """Compare a resource with the service; the copy catches up meanwhile.

    A difference counts if it is seen twice, since processes of a service may learn of a change at different times.
    """
    await pull.catch_up()
    ours = await asyncio.to_thread(_bucket_digests, pull.copy, resource)
    if ours.damaged:
        return CopyDifferences(different=ours.damaged)
    remaining, suspected = await _unequal_buckets(pull, resource, ours), set[str]()
    for number in range(_ROUNDS):
        if not remaining:
            break
        await pull.catch_up(wait=_WAIT_SECONDS if number else 0)
        differences = await _compare_buckets(pull, resource, remaining)
        if confirmed := [name for name in differences.different if name in suspected]:
            return CopyDifferences(different=confirmed)
        suspected = {*differences.different}
        remaining = sorted({*differences.unsettled, *(f"{bucket_of(name):04x}" for name in suspected)})
    return CopyDifferences(unsettled=remaining)


async def _unequal_buckets(pull: CopyUpdater, resource: str, ours: BucketDigests) -> list[str]:
    """Return the unequal buckets of 4 digits; if there are none, this costs one request."""
    theirs = await pull.feed.digest(resource)
    if (theirs.count, theirs.digest) == ours.digest_below(""):
        return []
    narrow: list[str] = []
    for prefixes in _prefix_batches(_differing(theirs.buckets, ours, [""], 2)):
        narrow += _differing((await pull.feed.digest(resource, prefixes)).buckets, ours, prefixes, 4)
    return narrow


def _differing(buckets: Iterable[BucketSummary], ours: BucketDigests, above: Sequence[str], length: int) -> list[str]:
    """Return the prefixes of a length, below some others, whose count or digest differ from the service's."""
    theirs = {
        bucket.prefix: (bucket.count, bucket.digest)
        for bucket in buckets
        if len(bucket.prefix) == length and bucket.prefix.startswith(tuple(above))
    }
    own = {prefix: ours.digest_below(prefix) for parent in above for prefix in ours.prefixes(parent, length)}
    return sorted(prefix for prefix in theirs.keys() | own.keys() if theirs.get(prefix) != own.get(prefix))


async def _compare_buckets(pull: CopyUpdater, resource: str, prefixes: Sequence[str]) -> CopyDifferences:
    """Compare the records of the first `_MAX_BUCKETS` buckets; the others count as unsettled."""
    compared, remaining = prefixes[:_MAX_BUCKETS], prefixes[_MAX_BUCKETS:]
    ours = await asyncio.to_thread(_bucket_digests, pull.copy, resource, compared)
    theirs = {
        bucket.prefix: bucket
        for batch in _prefix_batches(compared)
        for bucket in await _fetch_buckets(pull, resource, batch)
    }
    touched: TouchedRecords = set()
    await pull.catch_up(touched=touched)
    changed = {f"{bucket_of(identifier):04x}" for name, identifier in touched if name == resource}
    differences = CopyDifferences(unsettled=[*remaining])
    for prefix in compared:
        differing = _differing_ids(ours.contents[prefix], theirs.get(prefix))
        if differing and (prefix in changed or (prefix in theirs and theirs[prefix].unsettled)):
            differences.unsettled.append(prefix)
        else:
            differences.different += differing
    return differences


async def _fetch_buckets(pull: CopyUpdater, resource: str, prefixes: Sequence[str]) -> list[BucketSummary]:
    """Return buckets of 4 digits with their records; split the request if the service rejects it as too large."""
    try:
        return (await pull.feed.digest(resource, prefixes)).buckets
    except FeedRequestRejected as error:
        if error.status != HTTPStatus.BAD_REQUEST or len(prefixes) == 1:
            raise
    half = len(prefixes) // 2
    return [
        *await _fetch_buckets(pull, resource, prefixes[:half]),
        *await _fetch_buckets(pull, resource, prefixes[half:]),
    ]


def _differing_ids(ours: dict[str, str], bucket: BucketSummary | None) -> list[str]:
    theirs = {record.id: record.content for record in bucket.records} if bucket else {}
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _prefix_batches(prefixes: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(prefixes), _PREFIXES_PER_REQUEST):
        yield prefixes[start : start + _PREFIXES_PER_REQUEST]
