"""How two sides are compared in flat memory: digests of everything first, then records where the digests differ."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.verify_findings import Comparison, kind_of
from mappings.digest import COARSE_BUCKETS, Digest, coarse_bucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from indexer.verify_sides import Entry, IndexSide, Side

# Records of the second pass that are in memory together, at some 350 bytes each.
HELD = 500_000
_LOOKED_UP_TOGETHER = 1_000


@dataclass
class _Tally:
    """What the first pass keeps of a side: a digest and a number of entries per bucket."""

    digests: list[Digest] = field(default_factory=lambda: [Digest() for _ in range(COARSE_BUCKETS)])
    sizes: list[int] = field(default_factory=lambda: [0] * COARSE_BUCKETS)
    # Buckets in which digests prove nothing.
    doubtful: set[int] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Only what is live has a part in the digest: a deleted record may be absent just as well."""
        at = coarse_bucket(entry.id)
        self.sizes[at] += 1
        if not entry.deleted:
            self.digests[at].add(entry.id, entry.version, entry.content, entry.stored)


@dataclass(frozen=True)
class Passes:
    """The comparison of a reference with an index; `refresh` makes what the index was sent meanwhile visible.

    `taken_at` is as of when the reference is, in microseconds since 1970.
    """

    reference: Side
    index: IndexSide
    refresh: Callable[[], Awaitable[None]]
    result: Comparison
    taken_at: int

    async def run(self) -> None:
        """Compare everything and write down what was found.

        A reference may have several entries of a record. Then its digest is not that of its newest entries, but it is
        not that of the index either, in which each record is once: the bucket differs and the second pass decides. The
        one exception is a record that the reference has live and, newer, deleted, and that the index still serves: so
        each deletion is looked up.
        """
        expected, found = await self._tallies()
        differing = []
        for at in range(COARSE_BUCKETS):
            if at in expected.doubtful or expected.digests[at] != found.digests[at]:
                differing.append(at)
            else:
                self.result.compared += expected.digests[at].count
        sizes = [max(pair) for pair in zip(expected.sizes, found.sizes, strict=True)]
        for group in _groups(differing, sizes):
            await self._settle(frozenset(group))

    async def _tallies(self) -> tuple[_Tally, _Tally]:
        try:
            async with asyncio.TaskGroup() as both:
                expected = both.create_task(self._expected())
                found = both.create_task(_tally(self.index.entries()))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return expected.result(), found.result()

    async def _expected(self) -> _Tally:
        tally = _Tally()
        async for page in self.reference.entries():
            for entry in page:
                tally.add(entry)
            if deleted := [entry.id for entry in page if entry.deleted]:
                tally.doubtful.update(map(coarse_bucket, await self.index.alive(deleted)))
        return tally

    async def _settle(self, group: frozenset[int]) -> None:
        """Compare some buckets record by record. What seems wrong is looked up again before it is reported."""
        expected = await self._newest(group)
        self.result.compared += sum(not entry.deleted for entry in expected.values())
        met, suspects = set[str](), set[str]()
        async for page in self.index.entries(group):
            met.update(entry.id for entry in page)
            suspects.update(entry.id for entry in page if kind_of(expected.get(entry.id), entry, self.taken_at))
        suspects.update(entry.id for entry in expected.values() if not entry.deleted and entry.id not in met)
        if suspects:
            await self.refresh()
            await self._report(expected, sorted(suspects))

    async def _newest(self, group: frozenset[int]) -> dict[str, Entry]:
        newest: dict[str, Entry] = {}
        async for page in self.reference.entries(group):
            for entry in page:
                known = newest.get(entry.id)
                self.result.repeated += known is not None
                if known is None or entry.version > known.version:
                    newest[entry.id] = entry
        return newest

    async def _report(self, expected: dict[str, Entry], suspects: Sequence[str]) -> None:
        for at in range(0, len(suspects), _LOOKED_UP_TOGETHER):
            some = suspects[at : at + _LOOKED_UP_TOGETHER]
            found = await self.index.look_up(some)
            for identifier in some:
                sides = expected.get(identifier), found.get(identifier)
                if (kind := kind_of(*sides, self.taken_at)) is not None:
                    self.result.note(kind, *sides)


async def _tally(entries: AsyncIterator[list[Entry]]) -> _Tally:
    tally = _Tally()
    async for page in entries:
        for entry in page:
            tally.add(entry)
    return tally


def _groups(buckets: Iterable[int], sizes: Sequence[int]) -> list[list[int]]:
    """Return buckets in groups whose sizes add up to `HELD` at most, or that are one bucket."""
    groups: list[list[int]] = []
    held = 0
    for at in buckets:
        if not groups or held + sizes[at] > HELD:
            groups.append([])
            held = 0
        groups[-1].append(at)
        held += sizes[at]
    return groups
