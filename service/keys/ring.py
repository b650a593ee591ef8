"""The in-memory set of all keys, read at startup and refreshed every few seconds, and their last use."""

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from service.background import keep_running
from service.keys.api_key import ApiKey, DamagedKey, decode_key
from service.keys.revocation_list import RevocationList
from service.search.cached_value import CacheAges, CachedValue
from service.search.engine import SearchEngine
from service.search.shared_state import DocumentSet, DocumentSetReader, WriteProblem, bulk_lines, bulk_problem
from service.telemetry.observation import KEY_USAGE_FAILURES

_WRITE_INTERVAL_SECONDS = 60.0
# For each write, and for all of them at shutdown.
_WRITE_TIMEOUT_SECONDS = 2.0
# So that a write ends within its timeout, however many keys are in use.
_WRITTEN_AT_ONCE = 1_000
_CREATOR = "`brokerage keys create`"


class KeyUsage:
    """The last uses of keys that have not been written yet.

    The service needs the privilege `index` on the alias, but cannot create it: the command line does, with the first
    key. Writes require an alias, so that they never create an index.
    """

    def __init__(self, engine: SearchEngine, alias: str, every_seconds: float = _WRITE_INTERVAL_SECONDS) -> None:
        """Write to `alias` every `every_seconds` and at shutdown."""
        self._engine = engine
        self._alias = alias
        self._every_seconds = every_seconds
        self._pending: dict[str, dt.datetime] = {}
        self._problem = WriteProblem(
            "The last use of keys is not being recorded: %s.", "The last use of keys is being recorded again."
        )

    def record_use(self, key_id: str, now: dt.datetime) -> None:
        self._pending[key_id] = now

    async def run(self) -> None:
        """Write periodically, forever."""
        while True:
            await asyncio.sleep(self._every_seconds)
            await self.flush()

    async def flush(self) -> None:
        """Write the pending uses, or keep them for the next attempt; failures are logged, not raised."""
        pending = [*self._pending.items()]
        for start in range(0, len(pending), _WRITTEN_AT_ONCE):
            if not await self._write(dict(pending[start : start + _WRITTEN_AT_ONCE])):
                return

    async def close(self) -> None:
        """Write what is pending, as far as that is possible within the time of one write."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WRITE_TIMEOUT_SECONDS):
                await self.flush()

    async def _write(self, batch: dict[str, dt.datetime]) -> bool:
        """Write some uses; return whether that succeeded."""
        problem = await bulk_problem(self._engine, self._alias, _bulk_body(batch), _CREATOR, _WRITE_TIMEOUT_SECONDS)
        if problem:
            KEY_USAGE_FAILURES.inc()
        for key_id, at in () if problem else batch.items():
            if self._pending.get(key_id) == at:
                del self._pending[key_id]
        self._problem.changes_to(problem)
        return not problem


def _bulk_body(batch: dict[str, dt.datetime]) -> bytes:
    """Return the body of a bulk request. The time is also the version, so that a later one is never overwritten."""
    return bulk_lines(
        ({"_id": key_id, "version": int(at.timestamp() * 1000), "version_type": "external"}, {"last_used": at})
        for key_id, at in batch.items()
    )


# Lower limit, however small BROKERAGE_FRESH_SECONDS is.
_MIN_REFRESH_SECONDS = 0.25
# Requests with keys that are not in memory have the set read again for all of them together, at most this often.
_RENEWAL_INTERVAL_SECONDS = 0.25
# A starting process waits this long for the first set; after that, requests wait for it.
_WARM_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger("service")


class KeyRing:
    """Finds keys by their public id."""

    def __init__(
        self, engine: SearchEngine, index: str, ages: CacheAges, usage: KeyUsage, revocations: RevocationList
    ) -> None:
        """Read keys from `index`; a revocation takes effect within `ages.stale_seconds`. `usage` records last use."""
        self.usage = usage
        self._ages = ages
        self._revocations = revocations
        self._reader: DocumentSetReader[ApiKey | None] = DocumentSetReader(engine, index, self._decode, "key_id")
        self._keys: CachedValue[DocumentSet[ApiKey | None]] = CachedValue(self._read, ages)
        self._renewal: asyncio.Task[None] | None = None
        self._renewed_at = float("-inf")
        self._logged_damaged_ids: set[str] = set()

    async def warm(self) -> None:
        """Read all keys once; during an outage, continue without them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WARM_TIMEOUT_SECONDS):
                await asyncio.gather(self._keys.refresh(), self._revocations.read())

    async def run(self) -> None:
        """Refresh the keys and the revocation list, and write the last use of keys, forever."""
        work = (self._keep_fresh, self._revocations.run, self.usage.run)
        await asyncio.gather(*map(keep_running, work))

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(max(self._ages.fresh_seconds, _MIN_REFRESH_SECONDS))
            await self._keys.refresh()

    def cached_keys(self) -> Mapping[str, ApiKey | None]:
        """Return all keys as last read, None for damaged ones, without a request."""
        current = self._keys.current
        return {} if current is None else current.by_id

    def recall(self, key_id: str) -> ApiKey | None:
        """Return the key with this id from memory, without a request; None also if it is damaged or revoked by file."""
        keys = self._keys.current
        return None if keys is None or key_id in self._revocations.key_ids else keys.by_id.get(key_id)

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id as `recall`, from a set that is at most `ages.stale_seconds` old."""
        await self._keys.get()
        return self.recall(key_id)

    async def renew(self) -> None:
        """Have the set read after this call; raise ApiError if that fails.

        Concurrent calls share a read, and reads are spaced: invented ids cost Elasticsearch no more than a few small
        searches a second, however many there are, and known ids take exactly as long as unknown ones.
        """
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        await asyncio.shield(self._renewal)
        self._keys.raise_failure()

    async def _renew(self) -> None:
        await asyncio.sleep(self._renewed_at + _RENEWAL_INTERVAL_SECONDS - time.monotonic())
        # Calls from now on need a later read: their key may be stored after this one has begun.
        self._renewal, self._renewed_at = None, time.monotonic()
        await self._keys.refresh()

    async def _read(self) -> DocumentSet[ApiKey | None]:
        keys = await self._reader.read(self._keys.current)
        self._logged_damaged_ids &= keys.by_id.keys()
        return keys

    def _decode(self, hit: Mapping[str, Any]) -> ApiKey | None:
        """Return the key, or None and log once if it is damaged."""
        key = decode_key(hit["_id"], hit.get("_source"))
        if not isinstance(key, DamagedKey):
            self._logged_damaged_ids.discard(key.key_id)
            return key
        if key.key_id not in self._logged_damaged_ids:
            self._logged_damaged_ids.add(key.key_id)
            _log.error("The key %r is refused: its document is damaged. See `brokerage keys show`.", key.key_id)
        return None
