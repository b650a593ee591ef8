"""The keys that requests are checked against: all of them, read at start and renewed every few seconds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from service.freshness import Ages, Kept
from service.keys.reading import State, read_set, read_state
from service.keys.record import ApiKey, DamagedKey, read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.elastic import Engine
    from service.keys.usage import KeyUsage

# Ids that are not in the set are remembered, so that a wrong key costs one look-up a few seconds. Whoever knows how the
# checksum is made can invent any number of them.
_MOST_STRANGERS = 1_000
# However fresh keys are to be.
_SHORTEST_SECONDS = 0.25
# A starting process waits no longer for the first set: where it is not there, requests wait for it.
_FIRST_SECONDS = 2.0

_log = logging.getLogger("service")


class KeyRing:
    """Finds keys by their public id."""

    def __init__(self, engine: Engine, index: str, ages: Ages, usage: KeyUsage) -> None:
        """Read keys from `index`; a revocation holds after `ages.stale` seconds at most. `usage` notes who is used."""
        self.usage = usage
        self._engine = engine
        self._index = index
        self._ages = ages
        self._state = State()
        self._all: Kept[Mapping[str, ApiKey | None]] = Kept(self._read, ages)
        self._strangers: dict[str, Kept[ApiKey | None]] = {}
        self._damaged: set[str] = set()

    async def warm(self) -> None:
        """Read all keys once; who starts in an outage goes on without."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._all.renew()

    async def run(self) -> None:
        """Renew the keys and write down their use, for ever."""
        await asyncio.gather(self._keep_fresh(), self.usage.run())

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(max(self._ages.fresh, _SHORTEST_SECONDS))
            await self._all.renew()

    def known(self) -> Mapping[str, ApiKey | None]:
        """Return all keys as last read, None for damaged ones; nothing is asked."""
        return self._all.current or {}

    async def find(self, key_id: str) -> ApiKey | None:
        """Return the key, or None when there is none of this id. What is not in the set is looked up at once."""
        keys = await self._all.get()
        return keys[key_id] if key_id in keys else await self._stranger(key_id)

    async def _stranger(self, key_id: str) -> ApiKey | None:
        kept = self._strangers.get(key_id)
        if kept is None:
            if len(self._strangers) >= _MOST_STRANGERS:
                del self._strangers[next(iter(self._strangers))]
            kept = self._strangers[key_id] = Kept(lambda: self._look_up(key_id), self._ages)
        return await kept.get()

    async def _look_up(self, key_id: str) -> ApiKey | None:
        document = await self._engine.document(self._index, key_id)
        return None if document is None else self._sound(read_key(key_id, document))

    async def _read(self) -> Mapping[str, ApiKey | None]:
        """Return the set as it is; None stands for what is damaged."""
        known = self._all.current
        if known is not None and await read_state(self._engine, self._index) == self._state:
            return known
        found, self._state = await read_set(self._engine, self._index)
        self._damaged &= found.keys()
        keys = {key_id: self._sound(key) for key_id, key in found.items()}
        # Who was looked up before is in the set, or was deleted from it.
        self._strangers.clear()
        return keys

    def _sound(self, key: ApiKey | DamagedKey) -> ApiKey | None:
        if isinstance(key, ApiKey):
            self._damaged.discard(key.key_id)
            return key
        if key.key_id not in self._damaged:
            self._damaged.add(key.key_id)
            _log.error("The key %r is refused: its document is damaged. `brokerage keys show` says how.", key.key_id)
        return None
