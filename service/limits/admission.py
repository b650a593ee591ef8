"""Admission control: limits concurrent requests, queues a few more and refuses the rest immediately.

More requests in flight than Elasticsearch can process do not raise throughput, only latency and memory use, until
deadlines expire and the work is wasted. A refusal costs about an eightieth of a page. What there is, keys share.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from aiohttp import web

from service.errors import ApiError, Overloaded
from service.settings import ServiceSettings
from service.telemetry.observation import LIMIT_REFUSALS


class RateLimited(ApiError, status=429, code="rate-limited", title="Too many requests"):
    """The key has exceeded its rate."""

    def __init__(self, seconds: int) -> None:
        """Report the whole seconds until the next request is allowed."""
        super().__init__(
            f"The key has exceeded its rate limit. Try again in {seconds} s.",
            headers={"Retry-After": str(seconds)},
        )


class ConcurrencyLimited(ApiError, status=429, code="too-many-at-once", title="Too many requests at once"):
    """The key has too many concurrent requests in this process."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A key may have at most {limit} requests in progress. Send the next one when a response has arrived.",
            headers={"Retry-After": "1"},
        )


class ShareExceeded(ApiError, status=429, code="too-many-at-once", title="Too many requests at once"):
    """The key holds as many slots that are held for long as it leaves to other keys."""

    def __init__(self, held: int) -> None:
        super().__init__(
            f"The key has {held} such requests in progress, and no more places are left for all other keys. "
            "Send the next one when one of these has ended.",
            headers={"Retry-After": "5"},
        )


class UnreadResponses(ApiError, status=429, code="too-many-at-once", title="Too many requests at once"):
    """The key has left too many bytes of its responses unread."""

    def __init__(self, limit: int) -> None:
        """Report the limit in bytes."""
        super().__init__(
            f"More than {limit} bytes of responses to this key are still unread. "
            "Read the responses on its other connections, or close these, before the next request.",
            headers={"Retry-After": "5"},
        )


class AuthFailuresLimited(ApiError, status=429, code="rate-limited", title="Too many requests"):
    """The address has sent too many invalid keys. Valid keys from the same address are not refused."""

    def __init__(self, seconds: int) -> None:
        """Report the whole seconds until the next attempt is allowed."""
        super().__init__(
            f"Too many requests from this address had no valid API key. Try again in {seconds} s.",
            headers={"Retry-After": str(seconds)},
        )


Turn = asyncio.Future[None]


class FairQueue:
    """Waiting requests by key: in order of arrival within a key, next is the key that holds the fewest slots."""

    def __init__(self, held: Mapping[str, int]) -> None:
        """Start empty; `held` are the slots in use by each key that has any."""
        self._held = held
        # The key served last is last, so keys that hold the same number are served alternately.
        self._turns: dict[str, dict[Turn, None]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def length_of(self, key_id: str) -> int:
        """Return the number of waiting requests of a key."""
        return len(self._turns.get(key_id, ()))

    def keys(self) -> set[str]:
        """Return the keys with waiting requests."""
        return {*self._turns}

    def add(self, key_id: str) -> Turn:
        """Append a request; its turn is a future."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._turns.setdefault(key_id, {})[turn] = None
        self._length += 1
        return turn

    def discard(self, key_id: str, turn: Turn) -> None:
        """Remove a request if it still waits."""
        turns = self._turns.get(key_id, {})
        if turn in turns:
            del turns[turn]
            self._length -= 1
            if not turns:
                del self._turns[key_id]

    def next(self) -> tuple[str, Turn] | None:
        """Remove and return the request whose turn it is; None if none waits."""
        while self._turns:
            key_id = min(self._turns, key=lambda key_id: self._held.get(key_id, 0))
            turn = next(iter(self._turns[key_id]))
            self.discard(key_id, turn)
            if key_id in self._turns:
                self._turns[key_id] = self._turns.pop(key_id)
            # Skip a request whose client has just left: it is cancelled, but its task has not run yet.
            if not turn.done():
                return key_id, turn
        return None

    def drop_for(self, key_id: str) -> Turn | None:
        """Remove and return the newest request of the key that uses most, if it uses two more than `key_id`.

        What a key uses are its slots and its places in the queue.
        """
        greediest = max(self._turns, key=self._uses, default="")
        if self._uses(greediest) < self._uses(key_id) + 2:
            return None
        turn = next(reversed(self._turns[greediest]))
        self.discard(greediest, turn)
        return turn

    def _uses(self, key_id: str) -> int:
        return self._held.get(key_id, 0) + self.length_of(key_id)

    def ahead_of(self, key_id: str) -> int:
        """Return how many of the waiting requests are served before one more of a key."""
        own = self.length_of(key_id)
        level = self._held.get(key_id, 0) + own + 1
        others = (
            min(len(turns), max(0, level - self._held.get(other, 0)))
            for other, turns in self._turns.items()
            if other != key_id
        )
        return own + sum(others)


# A flood of requests must not flood the log.
_LOG_INTERVAL_SECONDS = 1.0
# The release interval is averaged over about the last 16 requests.
_SMOOTHING = 16
_SHARE_REFUSALS = LIMIT_REFUSALS.labels("share")

_log = logging.getLogger("service")


class AdmissionSlot:
    """A slot of a concurrency limit for one request of a key: `async with` waits for it, `hold` raises instead."""

    __slots__ = ("_is_held", "_key_id", "_limit")

    def __init__(self, limit: ConcurrencyLimit, key_id: str) -> None:
        self._limit = limit
        self._key_id = key_id
        self._is_held = False

    async def __aenter__(self) -> Self:
        limit = self._limit
        if limit.running < limit.slots:
            limit.take(self._key_id)
        else:
            await limit.wait(self._key_id)
        self._is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def hold(self) -> AdmissionSlot:
        """Take a free slot, to be released with `release`; raise Overloaded or ShareExceeded."""
        self._limit.take(self._key_id)
        self._is_held = True
        return self

    async def exchange(self, before: ConcurrencyLimit, limit: ConcurrencyLimit) -> None:
        """Release the slot if it is one of `before`, and wait for one of `limit`; raise Overloaded."""
        if self._is_held and self._limit is before:
            self.release()
            self._limit = limit
            await self.__aenter__()

    def release(self) -> None:
        """Release the slot if it is held."""
        if self._is_held:
            self._is_held = False
            self._limit.release(self._key_id)


ADMISSION_SLOT: web.RequestKey[AdmissionSlot] = web.RequestKey("admission slot", AdmissionSlot)


class ConcurrencyLimit:
    """A concurrency limit with a fair queue: `async with limit.slot(key_id):` holds a slot.

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


# Requests with keys that are not in memory, for the fraction of a second in which the keys are read again.
_UNKNOWN_KEYS = 32
# Searches for more records than this take a slot of the limit for large pages: a thousand listings are 7 MB.
LARGE_PAGE_RECORDS = 251


class RequestKind(StrEnum):
    """The kinds of requests, each with its own limit."""

    PAGE = "page"
    LARGE_PAGE = "large-page"
    SHOW = "show"
    CHANGES = "change"
    LONG_POLL = "long-poll"
    SNAPSHOT = "snapshot"
    DOWNLOAD = "download"
    UNKNOWN_KEY = "stranger"  # not in memory; as the metrics call it

    __hash__ = str.__hash__  # that of an Enum runs in Python


class AdmissionControl:
    """The concurrency limits of one process.

    Pages cannot block shows, which read one small record, nor large pages small ones: a worker holds each page until it
    is written, so a quarter as many large ones are made at a time. Requests with keys that are not in memory take no
    slot of the others. Capabilities add limits for the kinds of requests that only they have.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        patience = settings.queue_seconds
        large = max(1, settings.concurrency // 4)
        limits = (
            ConcurrencyLimit(RequestKind.PAGE, settings.concurrency, settings.queue, patience),
            ConcurrencyLimit(RequestKind.LARGE_PAGE, large, settings.queue, patience),
            ConcurrencyLimit(RequestKind.SHOW, settings.show_concurrency, settings.show_concurrency, patience),
            ConcurrencyLimit(RequestKind.UNKNOWN_KEY, _UNKNOWN_KEYS, 0, patience),
        )
        self.limits = {RequestKind(limit.kind): limit for limit in limits}

    def add(self, limit: ConcurrencyLimit) -> None:
        """Add the limit of a kind, before requests arrive."""
        limits = {**self.limits, RequestKind(limit.kind): limit}
        self.limits = {kind: limits[kind] for kind in RequestKind if kind in limits}
