"""The keys that requests are checked against: each read when first used and renewed every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from service.freshness import Ages, Kept
from service.keys.record import ApiKey

if TYPE_CHECKING:
    from service.elastic import Engine

# Unknown ids are remembered too, so that a wrong key costs one look-up a few seconds; the checksum keeps guesses out.
_MOST_KEPT = 10_000


class KeyRing:
    """Finds keys by their public id."""

    def __init__(self, engine: Engine, index: str, ages: Ages) -> None:
        """Read keys from `index`; a revocation holds after `ages.stale` seconds at most."""
        self._engine = engine
        self._index = index
        self._ages = ages
        self._kept: dict[str, Kept[ApiKey | None]] = {}

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key, or None when there is none of this id."""
        kept = self._kept.get(key_id)
        if kept is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key_id] = Kept(lambda: self._read(key_id), self._ages)
        return await kept.get()

    async def _read(self, key_id: str) -> ApiKey | None:
        document = await self._engine.document(self._index, key_id)
        return None if document is None else msgspec.convert(document, ApiKey)
