"""The coordinator's side of a shared build: it finds the hosts that help, and passes ranges to their places."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Self

from elasticsearch import ApiError, ConflictError, TransportError

from indexer.build.hosts.remote_place import RemoteHost, RemotePlace
from indexer.build.hosts.shared_documents import (
    BUILD_ID,
    HOST_IDS,
    BuildOutcome,
    HostOffer,
    HostOrder,
    SharedBuild,
    pack,
    place_id,
)
from indexer.build.hosts.shared_store import SharedStore
from indexer.errors import IndexerError, LockedError
from indexer.lock.distributed_lock import HOLDER_TIMEOUT_SECONDS
from indexer.lock.lock_store import this_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indexer.build.hosts.build_terms import BuildTerms
    from indexer.build.hosts.shared_store import Found
    from indexer.build.parallel.loader_pool import LoaderPool
    from indexer.context import IndexerContext
    from indexer.lock.distributed_lock import DistributedLock
    from indexer.reporting.report import RunSummary

POLL_SECONDS = 0.25
# Six signs of life.
_HOST_TIMEOUT_SECONDS = HOLDER_TIMEOUT_SECONDS


class SharedRun:
    """A run that other hosts may help: they find it until it has ended."""

    def __init__(self, context: IndexerContext, lock: DistributedLock, terms: BuildTerms) -> None:
        """Publish nothing yet."""
        self._store = SharedStore(context)
        self._build = SharedBuild(lock.token, this_process(), terms)
        self._found: Found | None = None
        self._hosts: dict[str, RemoteHost] = {}
        self._numbers = count(1)
        self.summary: RunSummary | None = None  # once the run has ended with one
        self._pool: LoaderPool | None = None  # while a resource is loaded that can be divided

    async def __aenter__(self) -> Self:
        """Publish the build, and look for hosts from now on."""
        (self._found,) = await self._store.read([BUILD_ID])
        await self._publish()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        """Publish how the run has ended, and delete what hosts have written."""
        self._watching.cancel()
        await asyncio.wait([self._watching])
        with suppress(IndexerError, ApiError, TransportError):
            self._build.packed_order, self._build.outcome = "", pack(self._outcome(error))
            await self._publish()
            for host in self._hosts.values():
                await self._store.delete(host.name)
                await self._delete_places(host)

    def _outcome(self, error: BaseException | None) -> BuildOutcome:
        if self.summary is not None:
            return BuildOutcome(self.summary)
        reason = str(error) if isinstance(error, IndexerError) else "it was stopped. The same command there resumes it."
        return BuildOutcome(None, reason, getattr(error, "exit_code", 1))

    async def _publish(self) -> None:
        """Write the build; raise LockedError if the run that has taken over the lock has written its own."""
        try:
            self._found = await self._store.replace(BUILD_ID, self._build, self._found)
        except ConflictError:
            (self._found,) = await self._store.read([BUILD_ID])
            # The write may have succeeded and only its response been lost.
            if self._found is None or self._found.read(SharedBuild) != self._build:
                raise LockedError("Another run shares its build: the lock of this one was lost.") from None

    @asynccontextmanager
    async def loading(self, pool: LoaderPool, order: HostOrder) -> AsyncIterator[None]:
        """Add the places of all hosts to a pool while a resource is loaded."""
        self._build.order += 1
        self._build.packed_order = pack(order)
        await self._publish()
        self._pool = pool
        for host in self._hosts.values():
            self._offer(host, pool)
        try:
            yield
        finally:
            self._pool = None
            for host in self._hosts.values():
                host.close("the load has ended")

    def _offer(self, host: RemoteHost, pool: LoaderPool) -> None:
        order = self._build.order
        for place in RemotePlace.of(host, self._store, order, self._numbers.__next__, pool.exits):
            pool.offer(place)

    async def _watch(self) -> None:
        """Look for hosts, their signs of life and their outcomes; a request that fails is left to the next."""
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                with suppress(IndexerError, ApiError, TransportError):
                    await self._look()
        finally:
            for host in self._hosts.values():
                host.close("the build does not look for it any more")

    async def _look(self) -> None:
        asked_at = time.monotonic()
        expected = [place for host in self._hosts.values() for place in host.places if place.expected]
        found = await self._store.read([*HOST_IDS, *(place.id for place in expected)])
        for place, document in zip(expected, found[len(HOST_IDS) :], strict=True):
            place.see(document)
        for name, document in zip(HOST_IDS, found, strict=False):
            await self._see_host(name, document, asked_at)

    async def _see_host(self, name: str, found: Found | None, asked_at: float) -> None:
        known, offer = self._hosts.get(name), found and found.read(HostOffer)
        if known is not None and (offer is None or offer.nonce != known.offer.nonce):
            await self._drop(known, "it has ended")
        if found is None or offer is None or offer.token != self._build.token:
            return
        if name not in self._hosts:
            self._hosts[name] = RemoteHost(name, offer, found)
            if self._pool is not None:
                self._offer(self._hosts[name], self._pool)
        await self._require_life(self._hosts[name], found, asked_at)

    async def _require_life(self, host: RemoteHost, found: Found, asked_at: float) -> None:
        """Take its places from a host that is silent. It notices when it next writes its document."""
        host.see(found)
        if asked_at - host.seen_at > _HOST_TIMEOUT_SECONDS:
            await self._store.delete(host.name, found)
            await self._drop(host, f"no sign of life for {_HOST_TIMEOUT_SECONDS:g} s")

    async def _drop(self, host: RemoteHost, reason: str) -> None:
        del self._hosts[host.name]
        host.close(reason)
        await self._delete_places(host)

    async def _delete_places(self, host: RemoteHost) -> None:
        """Delete the documents of its places: an outcome that the host writes to them from now on is refused."""
        for number in range(host.offer.places):
            await self._store.delete(place_id(host.name, number))
