"""Verification of a live index against its source or against an earlier generation.

Both sides are compared in constant memory: digests of all buckets first, then records where digests differ.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from indexer.clock import UNDATED, now_microseconds, version_microseconds
from indexer.documents.companies import BY_SOURCE, Companies, CoverageRequest, known_companies
from indexer.errors import RefusedError, SourceError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.settings import IndexerContext
from indexer.source.lines import RejectedLine, Source, require_present
from indexer.verify.sides import IndexSide, RecordedSide, RecordState, SourceSide, VerificationSide, recorded
from mappings import RESOURCES, Resource
from mappings.indices import parse_generation
from mappings.stored_document import COARSE_BUCKETS, Digest, coarse_bucket

# Records listed per kind of difference; all are counted.
MAX_NAMED = 1_000


class DifferenceKind(StrEnum):
    MISSING = "missing"  # in the reference, not in the index
    SURPLUS = "surplus"  # in the index, not in the reference
    DIFFERENT = "different"  # the same version with another content, or an older version in the index
    ALTERED = "altered"  # the same version and content hash, but other bytes are stored
    FUTURE = "future"  # in the index, dated later than the clock allows (BROKERAGE_FUTURE_SECONDS)
    KEPT = "kept"  # in the index, unreadable in the reference: not a fault
    NEWER = "newer"  # created, changed or deleted since the reference: not a fault

    @property
    def is_fault(self) -> bool:
        return self not in {DifferenceKind.NEWER, DifferenceKind.KEPT}


def _classify_difference(
    expected: RecordState | None, found: RecordState | None, taken_at: int
) -> DifferenceKind | None:
    """Return how a record differs, None if it does not.

    A record that the reference lacks or has deleted may be absent from the index or be a tombstone there. One that is
    newer than the reference, as of `taken_at` in microseconds since 1970, is not a fault.
    """
    is_expected, is_found = expected is not None and not expected.deleted, found is not None and not found.deleted
    if not is_expected and not is_found:
        return None
    if found is None or (found.version == UNDATED and is_found):
        return DifferenceKind.MISSING if found is None else DifferenceKind.FUTURE
    if found.version > expected.version if expected is not None else version_microseconds(found.version) > taken_at:
        return DifferenceKind.NEWER
    if expected is None or expected.deleted:
        return DifferenceKind.SURPLUS
    if found.deleted or (found.version, found.content) != (expected.version, expected.content):
        return DifferenceKind.DIFFERENT
    return DifferenceKind.ALTERED if found.stored != expected.stored else None


class RecordDifference(NamedTuple):
    """A record that differs, with its versions in the reference and in the index, None if absent.

    A version is the microseconds since 1970 of the record's `updated_at`, times 1,024, and ten bits of its content.
    """

    id: str
    expected: int | None
    found: int | None


class UnreadableLine(NamedTuple):
    file: str
    line: int
    field: str
    reason: str


@dataclass
class VerificationResult:
    """The comparison of one resource. Counts are complete; lists end at `MAX_NAMED`."""

    resource: str
    reference: str  # `the source`, or a generation
    index: str | None  # None without a live generation: nothing is compared
    covers: str = "all companies"  # those whose records are compared
    compared: int = 0  # live records of the reference
    repeated: int = 0  # lines of the source that repeat a record
    unreadable: int = 0  # lines of the source
    unreachable: int = 0  # live records of earlier versions whose identifier records may not have today
    seconds: float = 0.0
    counts: dict[DifferenceKind, int] = field(default_factory=lambda: dict.fromkeys(DifferenceKind, 0))
    named: dict[DifferenceKind, list[RecordDifference]] = field(
        default_factory=lambda: {kind: [] for kind in DifferenceKind}
    )
    unreadable_records: set[str] = field(default_factory=set)  # those of these lines, as far as they are known
    unreachable_named: list[str] = field(default_factory=list)
    unreadable_named: list[UnreadableLine] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether the index has exactly the records of the reference, apart from newer ones."""
        return self.index is not None and not any(count for kind, count in self.counts.items() if kind.is_fault)

    def add(self, kind: DifferenceKind, expected: RecordState | None, found: RecordState | None) -> None:
        """Count a difference and list it, up to `MAX_NAMED`; at least one side has the record."""
        entry = expected or found
        if kind is DifferenceKind.SURPLUS and entry is not None and entry.id in self.unreadable_records:
            kind = DifferenceKind.KEPT
        self.counts[kind] += 1
        if entry is not None and len(self.named[kind]) < MAX_NAMED:
            versions = (side.stated_version if side else None for side in (expected, found))
            self.named[kind].append(RecordDifference(entry.id, *versions))

    def add_unreachable(self, identifier: str) -> None:
        """Count a live record that cannot be requested by its identifier, and list it, up to `MAX_NAMED`."""
        self.unreachable += 1
        if len(self.unreachable_named) < MAX_NAMED:
            self.unreachable_named.append(identifier)

    def add_unreadable(self, item: RejectedLine) -> None:
        """Count an invalid line and list it, up to `MAX_NAMED`."""
        self.unreadable += 1
        self.unreadable_records |= item.identifiers or frozenset()
        if len(self.unreadable_named) < MAX_NAMED:
            line, error = item.line, item.error
            self.unreadable_named.append(UnreadableLine(line.file, line.number, error.field, error.reason))


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
    """The comparison of a reference with a live index.

    `taken_at` is the time of the reference's state, in microseconds since 1970.
    """

    resource: Resource
    reference: VerificationSide
    index: IndexSide
    lifecycle: GenerationLifecycle
    result: VerificationResult
    taken_at: int

    async def run(self) -> VerificationResult:
        """Compare all records and return the result with the differences; without a live index nothing is compared.

        The reference may have several entries of a record, the index has one: the digests of such a bucket differ, and
        the second pass decides. They may only agree by accident if a record is live and later deleted in the reference,
        but still live in the index, so every deletion is looked up.
        """
        started = time.monotonic()
        if self.result.index is not None:
            await self.lifecycle.refresh(self.index.index)
            with recorded(self.reference) as reference, recorded(self.index) as index:
                await self._compare(reference, index)
        self.result.seconds = time.monotonic() - started
        return self.result

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
        for group in buckets_together(differing, sizes):
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
                entry.id for entry in page if _classify_difference(expected.get(entry.id), entry, self.taken_at)
            )
        suspects.update(entry.id for entry in expected.values() if not entry.deleted and entry.id not in seen)
        if suspects:
            await self.lifecycle.refresh(self.index.index)
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
                if (kind := _classify_difference(*sides, self.taken_at)) is not None:
                    self.result.add(kind, *sides)


def buckets_together(buckets: Iterable[int], sizes: Sequence[int]) -> list[list[int]]:
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


_THE_SOURCE = "the source"
# The time of an earlier generation's state is unknown, so no record counts as newer.
_LAST_MICROSECOND = 2**53


async def verify_against_source(
    context: IndexerContext,
    source: Source,
    resources: Collection[Resource] = (),
    *,
    covered: CoverageRequest = BY_SOURCE,
    is_full: bool = False,
) -> list[VerificationResult]:
    """Compare the live records with the newest envelopes of a source: the given resources, or all that it has.

    Only records of the companies that the source covers, or that `covered` names, are compared.

    Without a live index nothing is compared, and the result is not equal. `is_full` fetches whole documents and
    compares their stored bytes. Raises SourceError for a resource that the source does not have, or if it has none,
    ElasticsearchError or RefusedError.
    """
    # In a thread, since `has` may read the whole source.
    present = await asyncio.to_thread(require_present, source, RESOURCES)
    if absent := [resource.alias for resource in resources if resource not in present]:
        raise SourceError(f"The source has nothing for: {', '.join(absent)}.")
    with translate_client_errors():
        known = await known_companies(context, source, covered)
        return [
            await _against_source(context, source, known, resource, is_full=is_full)
            for resource in present
            if not resources or resource in resources
        ]


async def _against_source(
    context: IndexerContext, source: Source, known: Companies, resource: Resource, *, is_full: bool
) -> VerificationResult:
    lifecycle = GenerationLifecycle(context, resource)
    live = (await lifecycle.generations()).live
    result = VerificationResult(resource.alias, _THE_SOURCE, live, covers=str(known.coverage))
    index = IndexSide(context, live or "", is_full, known.coverage)
    reference = SourceSide(source, resource, known, context.settings, index, result.add_unreadable)
    taken_at = min(source.taken_at(resource), now_microseconds())
    return await BucketComparison(resource, reference, index, lifecycle, result, taken_at).run()


async def verify_against_generation(
    context: IndexerContext,
    resources: Collection[Resource] = (),
    *,
    generation: str | None = None,
    is_full: bool = False,
) -> list[VerificationResult]:
    """Compare the live indices with an earlier generation: the given one, or the one that each replaced.

    Raises RefusedError if there is none, or ElasticsearchError.
    """
    with translate_client_errors():
        pairs = (
            await _pairs(context, resources) if generation is None else [await _pair(context, resources, generation)]
        )
        return [await _against_generation(context, pair, is_full=is_full) for pair in pairs]


@dataclass(frozen=True)
class _GenerationPair:
    lifecycle: GenerationLifecycle
    resource: Resource
    live: str
    earlier: str


async def _pairs(context: IndexerContext, resources: Collection[Resource]) -> list[_GenerationPair]:
    pairs = []
    for resource in [resource for resource in RESOURCES if not resources or resource in resources]:
        lifecycle = GenerationLifecycle(context, resource)
        history = (await lifecycle.generations()).history
        if len(history) > 1:
            pairs.append(_GenerationPair(lifecycle, resource, history[0], history[1]))
        elif resources:
            raise RefusedError(f"{resource.alias} has no earlier version to compare with: specify a SOURCE.")
    if not pairs:
        raise RefusedError("There is no earlier version to compare with: specify a SOURCE.")
    return pairs


async def _pair(context: IndexerContext, resources: Collection[Resource], generation: str) -> _GenerationPair:
    prefix = context.connection.prefix
    earlier = generation if generation.startswith(prefix) else prefix + generation
    parsed = parse_generation(earlier)
    by_alias = {context.connection.alias(resource): resource for resource in RESOURCES}
    if parsed is None or parsed.alias not in by_alias:
        raise RefusedError(f"{generation} is not the name of an index version, such as listings-v0003.")
    resource = by_alias[parsed.alias]
    if set(resources) - {resource}:
        raise RefusedError(f"{generation} is a version of {resource.alias}: do not specify other resources.")
    lifecycle = GenerationLifecycle(context, resource)
    present = await lifecycle.generations()
    if earlier not in present.metas:
        raise RefusedError(f"{earlier} does not exist. Generations: {', '.join(present.metas) or 'none'}.")
    if present.live is None or present.live == earlier:
        raise RefusedError(f"{earlier} can only be compared with another version, and no other one is live.")
    return _GenerationPair(lifecycle, resource, present.live, earlier)


async def _against_generation(context: IndexerContext, pair: _GenerationPair, *, is_full: bool) -> VerificationResult:
    result = VerificationResult(pair.resource.alias, pair.earlier, pair.live)
    reference = IndexSide(context, pair.earlier, is_full)
    index = IndexSide(context, pair.live, is_full)
    return await BucketComparison(pair.resource, reference, index, pair.lifecycle, result, _LAST_MICROSECOND).run()
