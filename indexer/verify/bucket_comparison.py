"""Comparison of two sides in constant memory: digests of all buckets first, then records where digests differ."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from indexer.clock import UNDATED
from indexer.verify.findings import VerificationResult, classify_difference
from indexer.verify.recorded_side import RecordedSide, recorded
from indexer.verify.sides import IndexSide, RecordState, VerificationSide
from mappings import Resource
from mappings.digest import COARSE_BUCKETS, Digest, coarse_bucket

# Records of the second pass in memory at the same time, at about 350 bytes each.
MAX_RECORDS_IN_MEMORY = 500_000
_RECORDS_PER_LOOKUP = 1_000


@dataclass
class _BucketDigests:
    """The first pass over a side: a digest and a number of entries per bucket."""

    digests: list[Digest] = field(default_factory=lambda: [Digest() for _ in range(COARSE_BUCKETS)])
    sizes: list[int] = field(default_factory=lambda: [0] * COARSE_BUCKETS)
    # Buckets whose digests cannot prove equality.
    inconclusive: set[int] = field(default_factory=set)

    def add(self, entry: RecordState) -> None:
        """Add an entry. Deleted records are not part of the digest, since the other side may lack them."""
        bucket = coarse_bucket(entry.id)
        self.sizes[bucket] += 1
        if not entry.deleted:
            self.digests[bucket].add(entry.id, entry.version, entry.content, entry.stored)


@dataclass(frozen=True)
class BucketComparison:
    """The comparison of a reference with an index of a resource, which `refresh` refreshes.

    `taken_at` is the time of the reference's state, in microseconds since 1970.
    """

    resource: Resource
    reference: VerificationSide
    index: IndexSide
    refresh: Callable[[], Awaitable[None]]
    result: VerificationResult
    taken_at: int

    async def run(self) -> None:
        """Compare all records and add the differences to the result.

        The reference may have several entries of a record, the index has one: the digests of such a bucket differ, and
        the second pass decides. They may only agree by accident if a record is live and later deleted in the reference,
        but still live in the index, so every deletion is looked up.
        """
        with recorded(self.reference) as reference, recorded(self.index) as index:
            await self._compare(reference, index)

    async def _compare(self, reference: RecordedSide, index: RecordedSide) -> None:
        expected, indexed = await self._digests(reference, index)
        differing = []
        for bucket in range(COARSE_BUCKETS):
            if (
                bucket in expected.inconclusive | indexed.inconclusive
                or expected.digests[bucket] != indexed.digests[bucket]
            ):
                differing.append(bucket)
            else:
                self.result.compared += expected.digests[bucket].count
        sizes = [max(pair) for pair in zip(expected.sizes, indexed.sizes, strict=True)]
        for group in _groups(differing, sizes):
            await self._compare_records(frozenset(group), reference, index)

    async def _digests(self, reference: RecordedSide, index: RecordedSide) -> tuple[_BucketDigests, _BucketDigests]:
        try:
            async with asyncio.TaskGroup() as tasks:
                expected = tasks.create_task(self._reference_digests(reference))
                indexed = tasks.create_task(self._index_digests(index))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return expected.result(), indexed.result()

    async def _reference_digests(self, reference: RecordedSide) -> _BucketDigests:
        digests = _BucketDigests()
        async for page in reference.record():
            for entry in page:
                digests.add(entry)
            if deleted := [entry.id for entry in page if entry.deleted]:
                digests.inconclusive.update(map(coarse_bucket, await self.index.live_ids(deleted)))
        return digests

    async def _index_digests(self, index: RecordedSide) -> _BucketDigests:
        digests = _BucketDigests()
        async for page in index.record():
            for entry in page:
                digests.add(entry)
                if not entry.deleted and self.resource.canonical_identifier(entry.id) != entry.id:
                    self.result.add_unreachable(entry.id)
            digests.inconclusive.update(coarse_bucket(entry.id) for entry in page if entry.version == UNDATED)
        return digests

    async def _compare_records(self, group: frozenset[int], reference: RecordedSide, index: RecordedSide) -> None:
        """Compare some buckets record by record. Differences are looked up again before they are reported."""
        expected = await self._newest(group, reference)
        self.result.compared += sum(not entry.deleted for entry in expected.values())
        seen, suspects = set[str](), set[str]()
        async for page in index.recorded(group):
            seen.update(entry.id for entry in page)
            suspects.update(
                entry.id for entry in page if classify_difference(expected.get(entry.id), entry, self.taken_at)
            )
        suspects.update(entry.id for entry in expected.values() if not entry.deleted and entry.id not in seen)
        if suspects:
            await self.refresh()
            await self._report(expected, sorted(suspects))

    async def _newest(self, group: frozenset[int], reference: RecordedSide) -> dict[str, RecordState]:
        newest: dict[str, RecordState] = {}
        async for page in reference.recorded(group):
            for entry in page:
                known = newest.get(entry.id)
                self.result.repeated += known is not None
                if known is None or entry.version > known.version:
                    newest[entry.id] = entry
        return newest

    async def _report(self, expected: dict[str, RecordState], suspects: Sequence[str]) -> None:
        for start in range(0, len(suspects), _RECORDS_PER_LOOKUP):
            batch = suspects[start : start + _RECORDS_PER_LOOKUP]
            indexed = await self.index.look_up(batch)
            for identifier in batch:
                sides = expected.get(identifier), indexed.get(identifier)
                if (kind := classify_difference(*sides, self.taken_at)) is not None:
                    self.result.add(kind, *sides)


def _groups(buckets: Iterable[int], sizes: Sequence[int]) -> list[list[int]]:
    """Group buckets by at most `MAX_RECORDS_IN_MEMORY` records; a larger bucket is a group of its own."""
    groups: list[list[int]] = []
    size = 0
    for bucket in buckets:
        if not groups or size + sizes[bucket] > MAX_RECORDS_IN_MEMORY:
            groups.append([])
            size = 0
        groups[-1].append(bucket)
        size += sizes[bucket]
    return groups
