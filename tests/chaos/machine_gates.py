"""What takes chance out of a run: a clock that is told, work of the indexer that stands still, answers held back."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.freshness import Ages

if TYPE_CHECKING:
    from aiohttp.test_utils import TestClient
    from elastic_transport import AsyncTransport

    from service.services import Services

_FOR_EVER = math.inf


@dataclass
class Clock:
    """What the indexer takes for the time, in milliseconds since 1970: it stands in for the module `time`."""

    milliseconds: int

    def time_ns(self) -> int:
        """Return it in nanoseconds."""
        return self.milliseconds * 1_000_000


class Gate:
    """Lets through so many more of the indexer's steps.

    A step is a request that changes what is written, seen or told of one alias: bulk, refresh, alias, mark. Taking the
    right to write is one for a rebuild.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        """Everything passes."""
        self._send = transport.perform_request
        transport.perform_request = self._passed  # type: ignore[method-assign]
        self._room: float = math.inf
        self._alias = ""
        self._refreshes = False
        self._opened = asyncio.Event()
        self.has_write_lock = False
        self.is_held = asyncio.Event()

    def begin(self, alias: str, room: float, *, refreshes: bool) -> None:
        """Let the next piece of work on an alias go so far; without `refreshes` these are no steps of it."""
        self._alias, self._refreshes, self.has_write_lock = alias, refreshes, False
        self.open(room)

    def open(self, room: float) -> None:
        """Let the work go on so far."""
        self._room = room
        self.is_held.clear()
        self._opened.set()

    async def _passed(self, method: str, target: str, **given: Any) -> Any:
        if method != "GET" and self._is_step(target.partition("?")[0], given.get("body")):
            while self._room <= 0:
                self._opened.clear()
                self.is_held.set()
                await self._opened.wait()
            self._room -= 1
        if method == "PUT" and "/lock-write-" in target:
            self.has_write_lock = True
        return await self._send(method, target, **given)

    def _is_step(self, path: str, body: Any) -> bool:
        if path == "/_aliases":
            return any(part["alias"] == self._alias for action in body["actions"] for part in action.values())
        if path.endswith("/_refresh"):
            return self._refreshes
        if "/_doc/lock-write-" in path:  # up to here a rebuild lets others write
            return not (self._refreshes or self.has_write_lock)
        return path.endswith(("/_bulk", f"/_alias/{self._alias}")) or "/_doc/mark-" in path


class Replica:
    """One process's worth of the service. The answer to one search can be held back."""

    def __init__(self, http: TestClient[Any, Any], services: Services) -> None:
        """Keys and companies never change here: they are read once; marks are read anew for each first page."""
        self.http = http
        self.engine = services.engine
        self._of_keys = services.connection.keys_index
        services.directory._ages = services.keys._ages = Ages(_FOR_EVER, _FOR_EVER)
        for mark in services.marks.values():
            mark._ages = Ages(0.0, 0.0)
        self.call, self.engine.call = self.engine.call, self._held  # type: ignore[method-assign]
        self.hold: asyncio.Event | None = None  # set it to hold the next answer to a search until it is set
        self.is_holding = asyncio.Event()

    async def _held(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        answer = await self.call(method, target, body)
        # The keys are searched in the background: their answer is not the one that is waited for.
        if self.hold is not None and "/_search" in target and self._of_keys not in target:
            hold, self.hold = self.hold, None
            self.is_holding.set()
            await hold.wait()
        return answer

    def joined(self) -> bool:
        """Whether several wait for the same search."""
        return any(flight.passengers > 1 for flight in self._flying())

    async def landed(self) -> None:
        """Wait until nothing is read ahead any more: what is read is as old as the page in front of it."""
        if ahead := [flight.task for flight in self._flying() if flight.is_ahead]:
            await asyncio.wait(ahead)

    def forget(self) -> None:
        """Drop what was read ahead, and who is walking."""
        for flight in self._flying():
            flight.task.cancel()
        self.engine._flights._flights.clear()
        self.engine._expected.clear()

    def _flying(self) -> list[Any]:
        return list(self.engine._flights._flights.values())
