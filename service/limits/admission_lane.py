"""A concurrency limit for requests of one kind, shared fairly between keys."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Self

from aiohttp import web

from service.errors import Overloaded
from service.limits.fair_queue import FairQueue
from service.limits.limit_errors import ShareExceeded
from service.telemetry.counters import LIMIT_REFUSALS

# A flood of requests must not flood the log.
_LOG_INTERVAL_SECONDS = 1.0
# The release interval is averaged over about the last 16 requests.
_SMOOTHING = 16
_SHARE_REFUSALS = LIMIT_REFUSALS.labels("share")

_log = logging.getLogger("service")


class AdmissionSlot:
    """A slot of a lane for one request of a key: `async with` waits for it, `hold` takes it at once or raises."""

    __slots__ = ("_is_held", "_key_id", "_lane")

    def __init__(self, lane: AdmissionLane, key_id: str) -> None:
        """Hold nothing yet."""
        self._lane = lane
        self._key_id = key_id
        self._is_held = False

    async def __aenter__(self) -> Self:
        """Take a slot, or wait for one."""
        lane = self._lane
        if lane.running < lane.slots:
            lane.take(self._key_id)
        else:
            await lane.wait(self._key_id)
        self._is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release the slot."""
        self.release()

    def hold(self) -> AdmissionSlot:
        """Take a free slot, to be released with `release`; raise Overloaded or ShareExceeded."""
        self._lane.take(self._key_id)
        self._is_held = True
        return self

    async def exchange(self, before: AdmissionLane, lane: AdmissionLane) -> None:
        """Release the slot if it is one of `before`, and wait for one of `lane`; raise Overloaded."""
        if self._is_held and self._lane is before:
            self.release()
            self._lane = lane
            await self.__aenter__()

    def release(self) -> None:
        """Release the slot if it is held."""
        if self._is_held:
            self._is_held = False
            self._lane.release(self._key_id)


ADMISSION_SLOT: web.RequestKey[AdmissionSlot] = web.RequestKey("admission slot", AdmissionSlot)


class AdmissionLane:
    """A concurrency limit with a fair queue: `async with lane.slot(key_id):` holds a slot.

    One key may use all slots while no other needs them. Released slots go to the waiting key that holds the fewest.
    Raises Overloaded, without waiting, if the queue is full or the expected wait exceeds `max_wait_seconds`: judged by
    the rate at which slots were released recently, and by the time since the last release. A key with less than its
    share is queued all the same, in the place of a request of the key with the longest queue if there is none left.

    `is_held_long`: slots are held for so long that waiting for one makes no sense. Instead of queueing, each key may
    hold as many slots as it leaves free, so that the next key always finds some; it raises ShareExceeded.
    """

    def __init__(
        self, kind: str, slots: int, queue_size: int, max_wait_seconds: float, *, is_held_long: bool = False
    ) -> None:
        """Start with all slots free and an empty queue."""
        self.kind = kind
        self.slots = slots
        self.running = 0
        self.refused = 0
        self._queue_size = queue_size
        self._max_wait_seconds = max_wait_seconds
        self._is_held_long = is_held_long
        self._held: dict[str, int] = {}  # slots in use, by key
        self._queue = FairQueue(self._held)
        self._release_interval = 0.0  # seconds between releases while all slots are taken
        self._last_release = 0.0  # when the last free slot was taken, or a slot was released since
        self._unlogged_refusals = 0

    @property
    def waiting(self) -> int:
        """The length of the queue."""
        return len(self._queue)

    def slot(self, key_id: str) -> AdmissionSlot:
        """Return a slot for one request of a key, which is not held yet."""
        return AdmissionSlot(self, key_id)

    def held_by(self, key_id: str) -> int:
        """Return the slots that a key holds."""
        return self._held.get(key_id, 0)

    def take(self, key_id: str) -> None:
        """Take a free slot."""
        if self.running >= self.slots:
            self._refuse()
        held = self._held.get(key_id, 0)
        if self._is_held_long and held and held >= self.slots - self.running:
            _SHARE_REFUSALS.inc()
            raise ShareExceeded(held)
        self._held[key_id] = held + 1
        self.running += 1
        if self.running == self.slots:
            self._last_release = time.monotonic()

    async def wait(self, key_id: str) -> None:
        """Wait for a slot."""
        if not self._is_starved(key_id) and self._expected_wait(key_id) > self._max_wait_seconds:
            self._refuse()
        if len(self._queue) >= self._queue_size:
            self._make_room(key_id)
        turn = self._queue.add(key_id)
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.discard(key_id, turn)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot was handed over at the moment at which the client left.
                self.release(key_id)
            raise

    def release(self, key_id: str) -> None:
        """Pass the slot to the next waiting request, or free it."""
        if self.running == self.slots:
            self._measure_release()
        self._held[key_id] -= 1
        if not self._held[key_id]:
            del self._held[key_id]
        if (following := self._queue.next()) is None:
            self.running -= 1
            return
        next_key, turn = following
        self._held[next_key] = self._held.get(next_key, 0) + 1
        turn.set_result(None)

    def _is_starved(self, key_id: str) -> bool:
        """Whether a key has less than its share of the slots because another one holds more than its own."""
        keys = len(self._queue.keys() | self._held.keys() | {key_id})
        share = max(1, self.slots // keys)
        has = self.held_by(key_id) + self._queue.length_of(key_id)
        return has < share < max(self._held.values(), default=0)

    def _make_room(self, key_id: str) -> None:
        if (dropped := self._queue.drop_for(key_id)) is None:
            self._refuse()
        elif not dropped.done():
            self._count_refusal()
            dropped.set_exception(Overloaded())

    def _expected_wait(self, key_id: str) -> float:
        """Estimate the wait of one more request of a key, in seconds."""
        releases = self._queue.ahead_of(key_id) + 1
        return max(releases * self._release_interval, time.monotonic() - self._last_release)

    def _measure_release(self) -> None:
        now = time.monotonic()
        # Capped, because a stall that is over does not predict later waits.
        interval = min(now - self._last_release, self._max_wait_seconds)
        self._release_interval += (interval - self._release_interval) / _SMOOTHING
        self._last_release = now

    def _refuse(self) -> None:
        self._count_refusal()
        raise Overloaded

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
