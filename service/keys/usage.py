"""When each key was last used: noted in memory, written to Elasticsearch in the background, never at a request's cost.

The service needs the right `index` on the alias of the usage index, and none to create indices: the command line makes
it with the first key. A missing one stays missing, since writes demand an alias, which nothing creates by itself.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson

from service.errors import ApiError
from service.metrics import KEY_USAGE_FAILURES

if TYPE_CHECKING:
    import datetime as dt

    from service.elastic import Engine

_WRITE_EVERY_SECONDS = 60.0
# Also what the end of a process waits at most.
_PATIENCE_SECONDS = 2.0
# Written; or refused since another worker has written a later time, or the same.
_TAKEN = {200, 201, 409}

_log = logging.getLogger("service")


class KeyUsage:
    """The last use of keys that is not written yet."""

    def __init__(self, engine: Engine, alias: str, every_seconds: float = _WRITE_EVERY_SECONDS) -> None:
        """Write to `alias`, at most once in so many seconds and at the end."""
        self._engine = engine
        self._alias = alias
        self._every_seconds = every_seconds
        self._noted: dict[str, dt.datetime] = {}
        self._trouble = ""

    def note(self, key_id: str, now: dt.datetime) -> None:
        """Take note that a key was used now."""
        self._noted[key_id] = now

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await asyncio.sleep(self._every_seconds)
            await self.write()

    async def write(self) -> None:
        """Write what was noted; what could not be written is kept for the next time. Nothing is raised."""
        noted = dict(self._noted)
        if not noted:
            return
        trouble = await self._send(noted)
        if trouble:
            KEY_USAGE_FAILURES.inc()
        else:
            self._noted = {key_id: at for key_id, at in self._noted.items() if noted.get(key_id) != at}
        self._tell(trouble)

    async def _send(self, noted: dict[str, dt.datetime]) -> str:
        """Return what was wrong, nothing where all of it was taken."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                status, answer = await self._engine.bulk(self._alias, _lines(noted))
            refused = {status} if answer is None else {item["index"]["status"] for item in answer["items"]} - _TAKEN
        except (ApiError, TimeoutError, LookupError, TypeError):
            return "Elasticsearch did not take it in time"
        return _said(refused, self._alias) if refused else ""

    def _tell(self, trouble: str) -> None:
        """Log what is wrong when it begins and when it ends."""
        if trouble and trouble != self._trouble:
            _log.warning("When keys were last used is not recorded: %s.", trouble)
        elif self._trouble and not trouble:
            _log.warning("When keys were last used is recorded again.")
        self._trouble = trouble


def _lines(noted: dict[str, dt.datetime]) -> bytes:
    """Return the body of a bulk request. The time is the version too, so that a later one is never overwritten."""
    lines: list[dict[str, Any]] = []
    for key_id, at in noted.items():
        version = int(at.timestamp() * 1000)
        lines += ({"index": {"_id": key_id, "version": version, "version_type": "external"}}, {"last_used": at})
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _said(statuses: set[int], alias: str) -> str:
    if 404 in statuses:
        return f"there is no alias {alias}; `brokerage keys create` makes it, and its index"
    if statuses & {401, 403}:
        return f"the service's user lacks the right `index` on {alias}"
    return f"Elasticsearch answered {min(statuses)}"
