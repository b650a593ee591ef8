"""Admission control: limits concurrent requests, queues a few more and refuses the rest immediately.

More requests in flight than Elasticsearch can process do not raise throughput, only latency and memory use, until
deadlines expire and the work is wasted. A refusal costs about an eightieth of a page.
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

# A flood of requests must not flood the log.
_LOG_INTERVAL_SECONDS = 1.0
# The release interval is averaged over about the last 16 requests.
_SMOOTHING = 16
# Requests with keys that are not in memory, for the fraction of a second in which the keys are read again.
_STRANGERS = 32

_log = logging.getLogger("service")


class AdmissionLane:
    """A concurrency limit with a FIFO queue for requests of one kind: `async with lane:` holds a slot.

    Raises Overloaded, without waiting, if the queue is full or the expected wait exceeds `max_wait_seconds`: judged by
    the rate at which slots were released recently, and by the time since the last release.
    """

    def __init__(self, kind: str, slots: int, queue_size: int, max_wait_seconds: float) -> None:
        """Start with all slots free and an empty queue."""
        self.kind = kind
        self.slots = slots
        self.running = 0
        self.refused = 0
        self._queue_size = queue_size
        self._max_wait_seconds = max_wait_seconds
        self._waiting: dict[asyncio.Future[None], None] = {}  # in order of arrival
        self._release_interval = 0.0  # seconds between releases while all slots are taken
        self._last_release = 0.0  # when the last free slot was taken, or a slot was released since
        self._unlogged_refusals = 0

    @property
    def waiting(self) -> int:
        """The length of the queue."""
        return len(self._waiting)

    async def __aenter__(self) -> None:
        """Take a slot, or wait for one."""
        if self.running >= self.slots:
            await self._wait_for_slot()
            return
        self.running += 1
        if self.running == self.slots:
            self._last_release = time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        """Pass the slot to the head of the queue, or free it."""
        self._release()

    async def _wait_for_slot(self) -> None:
        if len(self._waiting) >= self._queue_size or self._expected_wait() > self._max_wait_seconds:
            self._count_refusal()
            raise Overloaded
        slot = asyncio.get_running_loop().create_future()
        self._waiting[slot] = None
        try:
            await slot
        except asyncio.CancelledError:
            self._waiting.pop(slot, None)
            if not slot.cancelled():
                # The slot was handed over at the moment at which the client left.
                self._release()
            raise

    def _expected_wait(self) -> float:
        """Estimate the wait of one more request, in seconds."""
        return max((len(self._waiting) + 1) * self._release_interval, time.monotonic() - self._last_release)

    def _release(self) -> None:
        if self.running == self.slots:
            self._measure_release()
        while self._waiting:
            slot = next(iter(self._waiting))
            del self._waiting[slot]
            # Skip a future whose client has just left: it is cancelled, but its task has not run yet.
            if not slot.done():
                slot.set_result(None)
                return
        self.running -= 1

    def _measure_release(self) -> None:
        now = time.monotonic()
        # Capped, because a stall that is over does not predict later waits.
        interval = min(now - self._last_release, self._max_wait_seconds)
        self._release_interval += (interval - self._release_interval) / _SMOOTHING
        self._last_release = now

    def _count_refusal(self) -> None:
        self.refused += 1
        if not self._unlogged_refusals:
            asyncio.get_running_loop().call_later(_LOG_INTERVAL_SECONDS, self._log_refusals)
        self._unlogged_refusals += 1

    def _log_refusals(self) -> None:
        _log.warning(
            "Refused %d %s requests within %g s: %d running, %d queued.",
            self._unlogged_refusals,
            self.kind,
            _LOG_INTERVAL_SECONDS,
            self.running,
            self.waiting,
        )
        self._unlogged_refusals = 0


class RequestKind(StrEnum):
    """The kinds of requests, each with its own lane."""

    PAGE = "page"
    SHOW = "show"
    CHANGES = "change"
    SNAPSHOT = "snapshot"
    STRANGER = "stranger"


class AdmissionControl:
    """The lanes of one process.

    Pages cannot block shows, which read one small record. A long poll for changes does no work while it waits, and
    takes the slot of a page to read them. A snapshot is a series of searches that takes minutes: few run at a time, and
    none is queued. Strangers, whose keys are not in memory, take no slot of the others.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        """Start with all slots free."""
        limits = {
            RequestKind.PAGE: (settings.concurrency, settings.queue),
            RequestKind.SHOW: (settings.show_concurrency, settings.show_concurrency),
            RequestKind.CHANGES: (settings.waiting, 0),
            RequestKind.SNAPSHOT: (settings.snapshots, 0),
            RequestKind.STRANGER: (_STRANGERS, 0),
        }
        self._lanes = {
            kind: AdmissionLane(kind, slots, queue_size, settings.queue_seconds)
            for kind, (slots, queue_size) in limits.items()
        }

    def lane(self, kind: RequestKind) -> AdmissionLane:
        """Return the lane of a kind."""
        return self._lanes[kind]

    def lanes(self) -> Iterator[AdmissionLane]:
        """Yield all lanes."""
        yield from self._lanes.values()
