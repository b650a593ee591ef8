"""How many requests are worked on at a time: a few more wait for their turn, the rest is refused at once.

Beyond what Elasticsearch can do at a time more requests in flight answer nothing sooner: all of them only take longer
and hold memory, until deadlines pass and the work was for nothing. A refusal costs about an eightieth of a page.
"""

from __future__ import annotations

import asyncio
import logging
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from service.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.settings import ServiceSettings

# A flood of requests must not become one of log lines.
_SECONDS_BETWEEN_LINES = 1.0
# The pace is that of about so many requests before.
_SMOOTHING = 16

_log = logging.getLogger("service")


class Lane:
    """Requests of one kind: `async with lane:` holds one of its places, in the order in which they came.

    A request that finds neither a place nor room to wait raises Overloaded, before it has waited. So does one that
    would find room, but would wait for longer than `patience` seconds: by the pace at which places came free of late,
    or because none has come free for as long as that.
    """

    def __init__(self, kind: str, places: int, room: int, patience: float) -> None:
        """Begin with all of the `places` free and nobody in the `room` for those who wait."""
        self.kind = kind
        self.places = places
        self.running = 0  # the places that are taken
        self.refused = 0
        self._room = room
        self._patience = patience
        self._waiting: dict[asyncio.Future[None], None] = {}  # the first to come first
        self._pace = 0.0  # the seconds from one place that comes free to the next while all are taken
        self._since = 0.0  # when the last free place was taken, or since then one last came free
        self._untold = 0

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    async def __aenter__(self) -> None:
        """Take a place."""
        if self.running >= self.places:
            await self._turn()
            return
        self.running += 1
        if self.running == self.places:
            self._since = time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        """Give the place on to who has waited longest, else free it."""
        self._leave()

    async def _turn(self) -> None:
        """Wait until a place is handed over."""
        if len(self._waiting) >= self._room or self._wait() > self._patience:
            self._refuse()
            raise Overloaded
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(turn, None)
            if not turn.cancelled():
                # The place was handed over in the moment in which the client left.
                self._leave()
            raise

    def _wait(self) -> float:
        """Return the seconds that one more would wait, as far as can be told."""
        return max((len(self._waiting) + 1) * self._pace, time.monotonic() - self._since)

    def _leave(self) -> None:
        if self.running == self.places:
            self._came_free()
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            # One whose client has just left is cancelled, but has not got to know of it yet.
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1

    def _came_free(self) -> None:
        now = time.monotonic()
        # A stall that is over says nothing of the time to come.
        self._pace += (min(now - self._since, self._patience) - self._pace) / _SMOOTHING
        self._since = now

    def _refuse(self) -> None:
        self.refused += 1
        if not self._untold:
            asyncio.get_running_loop().call_later(_SECONDS_BETWEEN_LINES, self._tell)
        self._untold += 1

    def _tell(self) -> None:
        _log.warning(
            "%d requests for a %s were refused within %g s: %d run and %d wait",
            self._untold,
            self.kind,
            _SECONDS_BETWEEN_LINES,
            self.running,
            self.waiting,
        )
        self._untold = 0


class Kind(StrEnum):
    """The kinds of requests, each with a lane of its own."""

    PAGE = "page"
    SHOW = "show"
    WAIT = "change"
    SNAPSHOT = "snapshot"


class Admission:
    """The lanes of one process: one for pages, and one for shows, which pages leave free whatever happens.

    A show is one small record, and shows under way are read together: many of them at a time are little work. Who waits
    for a change does nothing meanwhile, and takes the turn of a page to look for it. A snapshot is a row of searches
    that lasts for minutes: few are under way at a time, and none of them waits in line.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        """Begin with all places free."""
        patience = settings.queue_seconds
        rooms = {
            Kind.PAGE: (settings.concurrency, settings.queue),
            Kind.SHOW: (settings.show_concurrency, settings.show_concurrency),
            Kind.WAIT: (settings.waiting, 0),
            Kind.SNAPSHOT: (settings.snapshots, 0),
        }
        self._lanes = {kind: Lane(kind, places, room, patience) for kind, (places, room) in rooms.items()}

    def lane(self, kind: Kind) -> Lane:
        """Return the lane of a kind."""
        return self._lanes[kind]

    def lanes(self) -> Iterator[Lane]:
        """Yield all lanes."""
        yield from self._lanes.values()
