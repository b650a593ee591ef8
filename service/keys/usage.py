"""The last use of each key: recorded in memory and written to Elasticsearch in the background.

The service needs the privilege `index` on the alias of the usage index, but cannot create it: the command line does,
with the first key. Writes require an alias, so that they never create an index.
"""

import asyncio
import datetime as dt
from contextlib import suppress

from service.search.bulk_writes import WriteProblem, bulk_lines, bulk_problem
from service.search.engine import SearchEngine
from service.telemetry.counters import KEY_USAGE_FAILURES

_WRITE_INTERVAL_SECONDS = 60.0
# For each write, and for all of them at shutdown.
_WRITE_TIMEOUT_SECONDS = 2.0
# So that a write ends within its timeout, however many keys are in use.
_WRITTEN_AT_ONCE = 1_000
_CREATOR = "`brokerage keys create`"


class KeyUsage:
    """The last uses of keys that have not been written yet."""

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
        """Record that a key was used."""
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
