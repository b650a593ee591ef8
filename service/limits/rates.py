"""Rate and concurrency limits per key: policies, buckets, and the headers that report them.

Headers follow draft-ietf-httpapi-ratelimit-headers-10. Rates are counted in this process or shared through Redis.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from service.http.requests import IpAddress, client_address, client_network
from service.http.responses import EXTRA_HEADERS
from service.keys.api_key import ApiKey
from service.limits.admission import AuthFailuresLimited, ConcurrencyLimited, RateLimited
from service.settings import (
    MAX_PER_MINUTE,
    IpNetwork,
    RatePolicy,
    ServiceSettings,
    default_burst,
    rate_policy,
    read_tiers,
)
from service.telemetry.observation import (
    CURRENT_OBSERVATION,
    DELAYED_REFUSALS,
    LIMIT_FAIL_OPENS,
    LIMIT_HITS,
    LIMIT_REFUSALS,
    RequestObservation,
)

_SECOND_MICROSECONDS = 1_000_000
# Counts a request as so many.
Charge = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class RateLimitState:
    """The bucket of a key after a request.

    `backlog_microseconds` is the time until the bucket would be full again if the request were allowed; more than the
    depth of the bucket means that it was refused. `cost` is what the request takes from the bucket.
    """

    policy: RatePolicy | None
    backlog_microseconds: int = 0
    cost: int = 1

    @property
    def is_allowed(self) -> bool:
        return self.policy is None or self.backlog_microseconds <= self.policy.depth_microseconds

    @property
    def remaining(self) -> int:
        """The number of requests that would be allowed now; 0 without a limit, where it is unused."""
        if self.policy is None:
            return 0
        return (self.policy.depth_microseconds - self._level(self.policy)) // self.policy.interval_microseconds

    @property
    def retry_after(self) -> int:
        """Whole seconds until a refused request is allowed, else until one more request is than now."""
        if self.policy is None or not (level := self._level(self.policy)):
            return 0
        if not self.is_allowed:
            return _seconds(self.backlog_microseconds - self.policy.depth_microseconds)
        interval = self.policy.interval_microseconds
        return _seconds(interval - (self.policy.depth_microseconds - level) % interval)

    def headers(self) -> dict[str, str]:
        """Return the response headers; a key without a limit has none.

        The remaining requests count towards the burst. `X-RateLimit-Reset` is in seconds until the bucket is full.
        """
        if self.policy is None:
            return {}
        remaining = str(self.remaining)
        return {
            "RateLimit-Policy": policy_header(self.policy),
            "RateLimit": f'"burst";r={remaining};t={self.retry_after}',
            "X-RateLimit-Limit": str(self.policy.burst),
            "X-RateLimit-Remaining": remaining,
            "X-RateLimit-Reset": str(_seconds(self._level(self.policy))),
        }

    def _level(self, policy: RatePolicy) -> int:
        """Return the microseconds until the bucket is full; a refused request took nothing from it."""
        refused = 0 if self.is_allowed else self.cost * policy.interval_microseconds
        return max(self.backlog_microseconds - refused, 0)


@lru_cache(maxsize=1024)
def policy_header(policy: RatePolicy) -> str:
    """Return `RateLimit-Policy`: the burst with the seconds until the bucket is full, and the rate per minute."""
    return f'"burst";q={policy.burst};w={_seconds(policy.depth_microseconds)},"minute";q={policy.rate};w=60'


def _seconds(microseconds: int) -> int:
    return -(-microseconds // _SECOND_MICROSECONDS)


def key_policy(key: ApiKey, tiers: Mapping[str, RatePolicy]) -> RatePolicy | None:
    """Return the policy of a key, or None if it is unlimited.

    The rate is that of its tier, if configured, otherwise its own. The burst is its own, otherwise that of its tier,
    otherwise `default_burst`. Numbers are clamped to 1 and `MAX_PER_MINUTE`.
    """
    tier = tiers.get(key.tier) if key.tier is not None else None
    rate = key.rate if tier is None else tier.rate
    if rate is None:
        return None
    burst = key.burst if key.burst is not None or tier is None else tier.burst
    burst = None if burst is None else min(max(burst, 1), MAX_PER_MINUTE)
    return rate_policy(min(max(rate, 1), MAX_PER_MINUTE), burst)


class LocalBuckets:
    """Buckets by name; beyond `capacity` the least recently used one is evicted, and so is full again."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # When each bucket is full again, in microseconds of the monotonic clock; least recently used first.
        self._full_at: dict[str, int] = {}

    def take(self, name: str, policy: RatePolicy, cost: int = 1) -> int:
        """Take a request from a bucket if it has as much; return `RateLimitState.backlog_microseconds`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now), now)
        step = cost * policy.interval_microseconds
        backlog = full_at + step - now
        self._store(name, full_at + step if backlog <= policy.depth_microseconds else full_at)
        return backlog

    def put_back(self, name: str, policy: RatePolicy, cost: int = 1) -> int:
        """Return a request to a bucket; return `RateLimitState.backlog_microseconds`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now) - cost * policy.interval_microseconds, now)
        self._store(name, full_at)
        return full_at - now

    def __len__(self) -> int:
        return len(self._full_at)

    def _store(self, name: str, full_at: int) -> None:
        if len(self._full_at) >= self._capacity:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[name] = full_at


_MAX_KEYS = 100_000

_UNLIMITED = RateLimitState(None)
_RATE_REFUSALS = LIMIT_REFUSALS.labels("rate")
_CONCURRENCY_REFUSALS = LIMIT_REFUSALS.labels("concurrency")


class SharedBuckets(Protocol):
    """Buckets outside of this process, which count for several."""

    @property
    def is_unreachable(self) -> bool:
        """Whether no request waits for them."""

    async def take(self, name: str, step: int, depth: int) -> int | None:
        """Count a request and return `RateLimitState.backlog_microseconds`; None if they are unreachable."""


class KeyLimiter:
    """Counts the requests of keys, by public id."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.tiers = read_tiers(settings.tiers)
        self._max_concurrent = settings.key_concurrency
        self._shared: SharedBuckets | None = None
        self._local = LocalBuckets(_MAX_KEYS)
        self._refunds = LocalBuckets(_MAX_KEYS)
        self._running: dict[str, int] = {}
        # The last state in Redis, by key id.
        self._last_states: dict[str, RateLimitState] = {}

    def share(self, buckets: SharedBuckets) -> None:
        """Count in these buckets while they are available."""
        self._shared = buckets

    async def count_request(self, key: ApiKey) -> RateLimitState:
        state = await self.take(key, 1)
        if state.policy is not None:
            LIMIT_HITS.inc()
        return state

    async def take(self, key: ApiKey, cost: int) -> RateLimitState:
        """Take so much from the bucket of a key, if it has as much."""
        policy = key_policy(key, self.tiers)
        if policy is None:
            return _UNLIMITED
        backlog = await self._take_shared(key, policy, cost * policy.interval_microseconds)
        if backlog is None:
            return RateLimitState(policy, self._local.take(key.key_id, policy, cost), cost)
        state = self._last_states[key.key_id] = RateLimitState(policy, backlog, cost)
        return state

    @property
    def is_shared(self) -> bool:
        """Whether rates are counted in Redis at present."""
        return self._shared is not None and not self._shared.is_unreachable

    def expects_admission(self, key: ApiKey) -> bool:
        """Predict from the last known state whether a request of a key will be admitted."""
        running = self._running.get(key.key_id, 0)
        if key.key_id not in self._last_states or running >= (self._max_concurrent or math.inf):
            return False
        return running < self._last_states[key.key_id].remaining

    def may_refund(self, key: ApiKey, cost: int) -> bool:
        """Whether a 304 is free. It needs a search, too: only as many are as the key may send requests."""
        policy = key_policy(key, self.tiers)
        return policy is None or RateLimitState(policy, self._refunds.take(key.key_id, policy, cost)).is_allowed

    async def refund(self, key: ApiKey, cost: int = 1) -> RateLimitState:
        """Undo the counting of a request."""
        policy = key_policy(key, self.tiers)
        if policy is None:
            return _UNLIMITED
        backlog = await self._take_shared(key, policy, -cost * policy.interval_microseconds)
        return RateLimitState(policy, self._local.put_back(key.key_id, policy, cost) if backlog is None else backlog)

    def counted(self, key: ApiKey, cost: int) -> int:
        """Return what a request of a cost takes from the bucket of a key: a full bucket allows any request."""
        policy = key_policy(key, self.tiers)
        return cost if policy is None else min(cost, policy.burst)

    @contextmanager
    def slot(self, key: ApiKey) -> Iterator[None]:
        """Hold one of the key's slots in this process; raise ConcurrencyLimited if none is free."""
        running = self._running.get(key.key_id, 0)
        if self._max_concurrent and running >= self._max_concurrent:
            _CONCURRENCY_REFUSALS.inc()
            raise ConcurrencyLimited(self._max_concurrent)
        self._running[key.key_id] = running + 1
        try:
            yield
        finally:
            self._running[key.key_id] -= 1
            if not self._running[key.key_id]:
                del self._running[key.key_id]

    async def _take_shared(self, key: ApiKey, policy: RatePolicy, step: int) -> int | None:
        if self._shared is None:
            return None
        backlog = await self._shared.take(key.key_id, step, policy.depth_microseconds)
        if backlog is None:
            LIMIT_FAIL_OPENS.inc()
        return backlog


@asynccontextmanager
async def admit(limiter: KeyLimiter, request: web.Request, key: ApiKey) -> AsyncIterator[Charge]:
    """Count a request and hold a slot for it; raise RateLimited or ConcurrencyLimited.

    What is yielded counts it as several, before it is searched for, or raises RateLimited.
    Every response from then on has the headers of `RateLimitState`. A request refused for concurrency counts against
    the rate. A request that Redis is expected to allow starts while Redis counts; if Redis refuses it, RateLimited is
    raised at the end and the result is discarded (decision 11).
    """
    # One task each, so that Redis counts requests in order of arrival.
    counting = asyncio.create_task(_count(limiter, request, key)) if limiter.is_shared else None
    if counting is None:
        await _count(limiter, request, key)
    elif not limiter.expects_admission(key):
        await counting

    async def charge(cost: int) -> None:
        if cost > 1 and counting is not None:
            await counting
        await _count_more(limiter, request, key, cost)

    with limiter.slot(key):
        try:
            yield charge
        finally:
            if counting is not None:
                await counting


async def _count(limiter: KeyLimiter, request: web.Request, key: ApiKey) -> None:
    state = await limiter.count_request(key)
    request[EXTRA_HEADERS].update(state.headers())
    if not state.is_allowed:
        _RATE_REFUSALS.inc()
        raise RateLimited(state.retry_after)


async def _count_more(limiter: KeyLimiter, request: web.Request, key: ApiKey, cost: int) -> None:
    """Count a request that was counted as one; raise RateLimited, which counts nothing."""
    if (more := limiter.counted(key, cost) - 1) <= 0:
        return
    state = await limiter.take(key, more)
    request[EXTRA_HEADERS].update(state.headers())
    if not state.is_allowed:
        _RATE_REFUSALS.inc()
        request[EXTRA_HEADERS].update((await limiter.refund(key)).headers())
        raise RateLimited(state.retry_after)
    CURRENT_OBSERVATION.get().cost += more


async def refund_request(limiter: KeyLimiter, request: web.Request, key: ApiKey) -> None:
    """Undo the counting of an admitted request, if it is free, and update its headers."""
    cost = CURRENT_OBSERVATION.get().cost
    if limiter.may_refund(key, cost):
        request[EXTRA_HEADERS].update((await limiter.refund(key, cost)).headers())


_MAX_ADDRESSES = 10_000


class AuthFailureLimiter:
    """Counts failed authentications in this process."""

    def __init__(self, per_minute: int) -> None:
        """Allow `per_minute` failures per address, with a burst of the same size; 0 for no limit."""
        self._policy = RatePolicy(per_minute, per_minute) if per_minute else None
        self._buckets = LocalBuckets(_MAX_ADDRESSES)

    def count(self, address: IpAddress | None) -> None:
        """Count a failure; raise AuthFailuresLimited beyond the limit. Unknown addresses share one limit."""
        if self._policy is None:
            return
        state = RateLimitState(self._policy, self._buckets.take(client_network(address), self._policy))
        if not state.is_allowed:
            LIMIT_REFUSALS.labels("failures").inc()
            raise AuthFailuresLimited(state.retry_after)


# Less than the deadline of a request.
_LONGEST_SECONDS = 8.0
# Each costs a connection and some 20 KB; further refusals are sent at once.
_MOST_WAITING = 2_000
_MAX_CLIENTS = 10_000
_FAULTS_OF_CLIENTS = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)


class RefusalPacer:
    """Counts refusals in this process, by key, or by address without an accepted key.

    Hundreds of connections that repeat a refused request at once keep an event loop busy, and requests of others wait
    behind theirs. Only refusals wait, never other responses, so a client that makes few mistakes notices nothing, and
    one that shares an address with others delays only their refusals.
    """

    def __init__(self, per_minute: int, trusted: Sequence[IpNetwork]) -> None:
        """Send at most `per_minute` refusals to each client, 0 for no limit; `trusted` are the proxies in front."""
        self.waiting = 0
        self._burst = default_burst(per_minute) if per_minute else 0
        # A place for every refusal that waits; those beyond them wait longest.
        self._policy = RatePolicy(per_minute, self._burst + round(per_minute * _LONGEST_SECONDS / 60))
        self._trusted = trusted
        self._buckets = LocalBuckets(_MAX_CLIENTS)

    async def pace(self, request: web.Request, status: int, seen: RequestObservation) -> None:
        """Wait for the turn of a response, if it is one refusal of many."""
        if not self._burst or not _is_paced(status, seen):
            return
        seconds = self.delay(seen.key_id or client_network(client_address(request, self._trusted)))
        if seconds <= 0 or self.waiting >= _MOST_WAITING:
            return
        DELAYED_REFUSALS.inc()
        self.waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.waiting -= 1

    def delay(self, client: str) -> float:
        """Return the seconds until the turn of a client's next refusal; 0 or less if it is now."""
        policy = self._policy
        backlog = self._buckets.take(client, policy) - self._burst * policy.interval_microseconds
        return min(backlog / _SECOND_MICROSECONDS, _LONGEST_SECONDS)


def _is_paced(status: int, seen: RequestObservation) -> bool:
    """Whether a status is a refusal. 503 is the service's own failure, unless an operation keeps unknown keys away."""
    has_no_key = seen.timer is not None and not seen.key_id
    return status in _FAULTS_OF_CLIENTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and has_no_key)


REFUSAL_PACER = web.AppKey("refusal pacer", RefusalPacer)
