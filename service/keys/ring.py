"""The in-memory set of all keys, read at startup and refreshed every few seconds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from service.keys.key_set import KeySetVersion, read_keys, read_version
from service.keys.record import ApiKey, DamagedKey, decode_key
from service.search.cached_value import CacheAges, CachedValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.keys.usage import KeyUsage
    from service.search.engine import SearchEngine

# Unknown ids are cached, so that an invalid key costs one lookup per few seconds. The cache is bounded, because anyone
# who knows the checksum can invent any number of ids.
_MAX_UNKNOWN_KEYS = 1_000
# Lower limit, however small BROKERAGE_FRESH_SECONDS is.
_MIN_REFRESH_SECONDS = 0.25
# A starting process waits this long for the first set; after that, requests wait for it.
_WARM_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger("service")


class KeyRing:
    """Finds keys by their public id."""

    def __init__(self, engine: SearchEngine, index: str, ages: CacheAges, usage: KeyUsage) -> None:
        """Read keys from `index`; a revocation takes effect within `ages.stale_seconds`. `usage` records last use."""
        self.usage = usage
        self._engine = engine
        self._index = index
        self._ages = ages
        self._version = KeySetVersion()
        self._keys: CachedValue[Mapping[str, ApiKey | None]] = CachedValue(self._read, ages)
        self._unknown_keys: dict[str, CachedValue[ApiKey | None]] = {}
        self._logged_damaged_ids: set[str] = set()

    async def warm(self) -> None:
        """Read all keys once; during an outage, continue without them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_WARM_TIMEOUT_SECONDS):
                await self._keys.refresh()

    async def run(self) -> None:
        """Refresh the keys and write their last use, forever."""
        await asyncio.gather(self._keep_fresh(), self.usage.run())

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(max(self._ages.fresh_seconds, _MIN_REFRESH_SECONDS))
            await self._keys.refresh()

    def cached_keys(self) -> Mapping[str, ApiKey | None]:
        """Return all keys as last read, None for damaged ones, without a request."""
        return self._keys.current or {}

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, or None. An id that is not in the set is looked up immediately."""
        keys = await self._keys.get()
        return keys[key_id] if key_id in keys else await self._find_unknown(key_id)

    async def _find_unknown(self, key_id: str) -> ApiKey | None:
        cached = self._unknown_keys.get(key_id)
        if cached is None:
            if len(self._unknown_keys) >= _MAX_UNKNOWN_KEYS:
                del self._unknown_keys[next(iter(self._unknown_keys))]
            cached = self._unknown_keys[key_id] = CachedValue(lambda: self._look_up(key_id), self._ages)
        return await cached.get()

    async def _look_up(self, key_id: str) -> ApiKey | None:
        document = await self._engine.get_document(self._index, key_id)
        return None if document is None else self._intact(decode_key(key_id, document))

    async def _read(self) -> Mapping[str, ApiKey | None]:
        current = self._keys.current
        if current is not None and await read_version(self._engine, self._index) == self._version:
            return current
        decoded, self._version = await read_keys(self._engine, self._index)
        self._logged_damaged_ids &= decoded.keys()
        keys = {key_id: self._intact(key) for key_id, key in decoded.items()}
        # Keys looked up before are now in the set, or have been deleted.
        self._unknown_keys.clear()
        return keys

    def _intact(self, key: ApiKey | DamagedKey) -> ApiKey | None:
        """Return the key, or None and log once if it is damaged."""
        if isinstance(key, ApiKey):
            self._logged_damaged_ids.discard(key.key_id)
            return key
        if key.key_id not in self._logged_damaged_ids:
            self._logged_damaged_ids.add(key.key_id)
            _log.error("The key %r is refused: its document is damaged. See `brokerage keys show`.", key.key_id)
        return None
