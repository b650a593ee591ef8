"""The in-memory set of all keys, read at startup and refreshed every few seconds."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from service.background import keep_running
from service.keys.record import ApiKey, DamagedKey, decode_key
from service.keys.revocation_list import RevocationList
from service.keys.usage import KeyUsage
from service.search.cached_value import CacheAges, CachedValue
from service.search.document_set import DocumentSet, DocumentSetReader
from service.search.engine import SearchEngine

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
        return None if key_id in self._revocations else self.cached_keys().get(key_id)

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
