"""The last use of each key: recorded in memory and written to Elasticsearch in the background.

The service needs the privilege `index` on the alias of the usage index, but cannot create it: the command line does,
with the first key. Writes require an alias, so that they never create an index.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson

from cluster.write_blocks import write_block
from service.errors import ApiError
from service.telemetry.counters import KEY_USAGE_FAILURES

if TYPE_CHECKING:
    import datetime as dt

    from service.search.engine import SearchEngine

_WRITE_INTERVAL_SECONDS = 60.0
# Also the longest delay of a shutdown.
_WRITE_TIMEOUT_SECONDS = 2.0
# Written, or rejected because another worker has written the same or a later time.
_SUCCESS_STATUSES = {200, 201, 409}

_log = logging.getLogger("service")


class KeyUsage:
    """The last uses of keys that have not been written yet."""

    def __init__(self, engine: SearchEngine, alias: str, every_seconds: float = _WRITE_INTERVAL_SECONDS) -> None:
        """Write to `alias` every `every_seconds` and at shutdown."""
        self._engine = engine
        self._alias = alias
        self._every_seconds = every_seconds
        self._pending: dict[str, dt.datetime] = {}
        self._problem = ""

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
        batch = dict(self._pending)
        if not batch:
            return
        problem = await self._send(batch)
        if problem:
            KEY_USAGE_FAILURES.inc()
        else:
            self._pending = {key_id: at for key_id, at in self._pending.items() if batch.get(key_id) != at}
        self._log_changes(problem)

    async def _send(self, batch: dict[str, dt.datetime]) -> str:
        """Return the problem, or an empty text if everything was written."""
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_SECONDS):
                status, response = await self._engine.bulk(self._alias, _bulk_body(batch))
            items = [{"status": status}] if response is None else [item["index"] for item in response["items"]]
            failed = [item for item in items if response is None or item["status"] not in _SUCCESS_STATUSES]
            return _describe(failed, self._alias) if failed else ""
        except (ApiError, TimeoutError, LookupError, TypeError):
            return "Elasticsearch did not accept the write"

    def _log_changes(self, problem: str) -> None:
        """Log a problem when it begins and when it ends."""
        if problem and problem != self._problem:
            _log.warning("The last use of keys is not being recorded: %s.", problem)
        elif self._problem and not problem:
            _log.warning("The last use of keys is being recorded again.")
        self._problem = problem


def _bulk_body(batch: dict[str, dt.datetime]) -> bytes:
    """Return the body of a bulk request. The time is also the version, so that a later one is never overwritten."""
    lines: list[dict[str, Any]] = []
    for key_id, at in batch.items():
        version = int(at.timestamp() * 1000)
        lines += ({"index": {"_id": key_id, "version": version, "version_type": "external"}}, {"last_used": at})
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _describe(failed: list[dict[str, Any]], alias: str) -> str:
    if reason := next(filter(None, (write_block(item.get("error")) for item in failed)), ""):
        return f"{alias} is blocked: {reason}. Free disk space or remove the block"
    statuses = {item["status"] for item in failed}
    if 404 in statuses:
        return f"there is no alias {alias}; `brokerage keys create` creates it and its index"
    if statuses & {401, 403}:
        return f"the service's user lacks the privilege `index` on {alias}"
    return f"Elasticsearch returned {min(statuses)}"
