"""The part of a host in a shared build: it offers places, loads the ranges that it gets, and writes their outcomes.

A host may be suspended at any point. The coordinator then gives its ranges to others: its outcomes are refused because
their documents have changed, and its documents because their alias is removed (decision 55).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from elasticsearch import ApiError, ConflictError, TransportError
from msgspec import structs

from indexer.build.hosts.build_terms import bytes_digest
from indexer.build.hosts.shared_documents import (
    BUILD_ID,
    HOST_IDS,
    LOCK_ID,
    HostedLines,
    HostOffer,
    HostOrder,
    PlacedRange,
    SharedBuild,
    pack,
    place_id,
    unpack,
)
from indexer.build.hosts.shared_run import POLL_SECONDS
from indexer.build.parallel.messages import LoadOrder
from indexer.errors import FencedError, IndexerError, SourceError
from indexer.lock.distributed_lock import HEARTBEAT_SECONDS, HOLDER_TIMEOUT_SECONDS
from indexer.lock.lock_store import LockState, this_process
from indexer.source.line_ranges import FileRange, divisible_file
from mappings import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.build.hosts.shared_store import Found, SharedStore
    from indexer.build.parallel.loader_pool import LoaderPool
    from indexer.source.lines import Source

    OnLoaded = Callable[[LoadOrder, FileRange, int], None]

# For each process: one that it loads, and those that wait while documents are exchanged.
_PLACES_PER_PROCESS = 4


class Membership:
    """One offer of a host to a build, until that ends, another run takes over, or the coordinator withdraws the host.

    `on_loaded` receives each range that was loaded, and the number of its envelopes.
    """

    def __init__(
        self, store: SharedStore, source: Source, build: SharedBuild, pool: LoaderPool, on_loaded: OnLoaded
    ) -> None:
        """Offer nothing yet."""
        self._store = store
        self._source = source
        self._build = build
        self._pool = pool
        self._on_loaded = on_loaded
        places = pool.processes * _PLACES_PER_PROCESS
        self._offer = HostOffer(build.token, secrets.token_hex(8), this_process(), places)
        self._order: LoadOrder | None = None
        self._order_number = 0
        self._latest = dict[str, int]()  # the number of the latest range of each place
        self._loads = set[asyncio.Task[None]]()

    async def serve(self) -> SharedBuild | None:
        """Load ranges; return the build once it has ended, None if another run has taken over or the offer is void."""
        self._name, self._found = await self._claim()
        self._places = [place_id(self._name, number) for number in range(self._offer.places)]
        self._beat_at = self._lock_changed_at = time.monotonic()
        self._lock_seq_no = -1
        try:
            return await self._follow()
        finally:
            for load in self._loads:
                load.cancel()
            await asyncio.gather(*self._loads, return_exceptions=True)
            with suppress(IndexerError, ApiError, TransportError):
                await self._store.delete(self._name, self._found)

    async def _claim(self) -> tuple[str, Found]:
        """Write the offer to the first document that no other host of this build has."""
        for name, found in zip(HOST_IDS, await self._store.read(HOST_IDS), strict=True):
            is_free = found is None or found.read(HostOffer).token < self._offer.token
            if is_free and (written := await self._write_offer(name, found)) is not None:
                return name, written
        raise IndexerError(f"{len(HOST_IDS)} hosts help {self._build.coordinator} already: no more can.")

    async def _write_offer(self, name: str, over: Found | None) -> Found | None:
        """Write the offer to a document, unless another one is there than the host has read; None then."""
        try:
            return await self._store.replace(name, self._offer, over)
        except ConflictError:
            # The write may have succeeded and only its response been lost.
            (found,) = await self._store.read([name])
            return found if found is not None and found.read(HostOffer) == self._offer else None

    async def _follow(self) -> SharedBuild | None:
        while True:
            lock, build, *places = await self._store.read([LOCK_ID, BUILD_ID, *self._places])
            latest = build and build.read(SharedBuild)
            if latest and latest.token == self._build.token and latest.outcome:
                return latest
            if latest is None or lock is None or not self._is_held(lock) or not await self._beat():
                return None
            for load in [load for load in self._loads if load.done()]:
                self._loads.discard(load)
                load.result()
            self._take_order(latest)
            for place, found in zip(self._places, places, strict=True):
                self._take_range(place, found)
            await asyncio.sleep(POLL_SECONDS)

    def _is_held(self, lock: Found) -> bool:
        """Whether the coordinator still holds the lock; raise IndexerError if it is silent."""
        now, state = time.monotonic(), lock.read(LockState)
        if lock.seq_no != self._lock_seq_no:
            self._lock_seq_no, self._lock_changed_at = lock.seq_no, now
        if now - self._lock_changed_at > HOLDER_TIMEOUT_SECONDS:
            raise lost_coordinator(self._build)
        return state.holder is not None and state.token == self._build.token

    async def _beat(self) -> bool:
        """Give a sign of life if it is due; return whether the coordinator still counts on this host."""
        if time.monotonic() < self._beat_at:
            return True
        self._beat_at = time.monotonic() + HEARTBEAT_SECONDS
        if (written := await self._write_offer(self._name, self._found)) is None:
            return False
        self._found = written
        return True

    def _take_order(self, build: SharedBuild) -> None:
        if build.packed_order and build.order != self._order_number:
            order = unpack(build.packed_order, HostOrder)
            written = (order.fence, order.opaque_id, order.ranges)
            resource = next(each for each in RESOURCES if each.alias == order.resource)
            self._order_number = build.order
            self._order = LoadOrder(resource, order.companies, order.live, *written)

    def _take_range(self, place: str, found: Found | None) -> None:
        placed = found and found.read(PlacedRange)
        if found is None or placed is None or self._order is None:
            return
        is_ours = placed.nonce == self._offer.nonce and placed.order == self._order_number
        if is_ours and not placed.outcome and self._latest.get(place) != placed.number:
            self._latest[place] = placed.number
            self._loads.add(asyncio.create_task(self._load(place, found, placed, self._order)))

    async def _load(self, place: str, found: Found, placed: PlacedRange, order: LoadOrder) -> None:
        lines = await asyncio.to_thread(self._same_lines, placed, order)
        try:
            outcome = await self._pool.load(order, lines)
        except FencedError:
            return  # others have loaded the range, and the build reads no more lines
        exits, self._pool.exits = self._pool.exits, []
        await self._write_outcome(place, found, placed, pack(HostedLines.of(outcome, exits)))
        self._on_loaded(order, lines, outcome.loaded.read)

    async def _write_outcome(self, place: str, found: Found | None, placed: PlacedRange, outcome: str) -> None:
        """Write an outcome over its range, unless others load the range by now."""
        while found is not None and found.read(PlacedRange) == placed:
            try:
                await self._store.replace(place, structs.replace(placed, outcome=outcome), found)
            except ConflictError:
                # The coordinator may have written the same range again, because the response was lost.
                (found,) = await self._store.read([place])
            else:
                return

    def _same_lines(self, placed: PlacedRange, order: LoadOrder) -> FileRange:
        """Return the range in the file of this host; raise SourceError if its bytes are others."""
        path = divisible_file(self._source, order.resource)
        if path is not None:
            lines = FileRange(path, *placed.span)
            if bytes_digest(path, (lines.start, lines.position)) == placed.digest:
                return lines
        raise SourceError(
            f"{order.resource.alias}.ndjson differs from that of {self._build.coordinator} between the lines "
            f"{placed.span[2] + 1:,} and {placed.span[2] + placed.span[3]:,}: give both the same source."
        )


def lost_coordinator(build: SharedBuild) -> IndexerError:
    """Return the error of a host whose coordinator is silent."""
    return IndexerError(
        f"There was no sign of life of {build.coordinator}, which coordinates the build, for "
        f"{HOLDER_TIMEOUT_SECONDS:.0f} s: run the command there again, it resumes, and then this one."
    )
