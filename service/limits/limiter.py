"""The limits of keys: requests a minute and requests at a time, in this process or shared through Redis."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from service.headers import FURTHER
from service.limits.local import LocalBuckets
from service.limits.policy import policy_of, read_tiers
from service.limits.refusals import RateLimited, TooManyAtOnce
from service.limits.standing import Standing
from service.metrics import LIMIT_FAIL_OPENS, LIMIT_HITS, LIMIT_REFUSALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from aiohttp import web

    from service.keys.record import ApiKey
    from service.limits.policy import Policy
    from service.limits.shared import SharedBuckets
    from service.settings import ServiceSettings

_MOST_KEYS = 100_000

_UNLIMITED = Standing(None)
_RATE_REFUSALS = LIMIT_REFUSALS.labels("rate")
_CONCURRENCY_REFUSALS = LIMIT_REFUSALS.labels("concurrency")


class Limiter:
    """Counts the requests of keys, by their public ids."""

    def __init__(self, settings: ServiceSettings, shared: SharedBuckets | None = None) -> None:
        """Count in `shared` while that is there, else in this process."""
        self._tiers = read_tiers(settings.tiers)
        self._most_at_once = settings.key_concurrency
        self._shared = shared
        self._local = LocalBuckets(_MOST_KEYS)
        self._running: dict[str, int] = {}
        # As Redis told last, for each key that was asked for.
        self._last: dict[str, Standing] = {}

    async def open(self) -> None:
        """Find Redis, if the settings name one. One that is away holds nothing up for longer than a second."""
        if self._shared is not None:
            await self._shared.open()

    async def close(self) -> None:
        """Let go of Redis."""
        if self._shared is not None:
            await self._shared.close()

    async def hit(self, key: ApiKey) -> Standing:
        """Count a request of a key."""
        policy = policy_of(key, self._tiers)
        if policy is None:
            return _UNLIMITED
        LIMIT_HITS.inc()
        backlog = await self._in_shared(key, policy, policy.step)
        if backlog is None:
            return Standing(policy, self._local.take(key.key_id, policy))
        standing = self._last[key.key_id] = Standing(policy, backlog)
        return standing

    def tier(self, key: ApiKey) -> str | None:
        """Return the tier that a key has, if the settings know it."""
        return key.tier if key.tier in self._tiers else None

    @property
    def is_shared(self) -> bool:
        """Whether Redis is asked."""
        return self._shared is not None and not self._shared.is_away

    def expects(self, key: ApiKey) -> bool:
        """Whether there is a place for a key and Redis is about to let it through, as far as one can tell unasked."""
        running = self._running.get(key.key_id, 0)
        if key.key_id not in self._last or running >= (self._most_at_once or math.inf):
            return False
        return running < self._last[key.key_id].remaining

    async def refund(self, key: ApiKey) -> Standing:
        """Take back that a request of a key was counted, since its answer was 304."""
        policy = policy_of(key, self._tiers)
        if policy is None:
            return _UNLIMITED
        backlog = await self._in_shared(key, policy, -policy.step)
        return Standing(policy, self._local.put_back(key.key_id, policy) if backlog is None else backlog)

    @contextmanager
    def place(self, key: ApiKey) -> Iterator[None]:
        """Hold one of the places that the key has in this process; raise TooManyAtOnce when there is none."""
        running = self._running.get(key.key_id, 0)
        if self._most_at_once and running >= self._most_at_once:
            _CONCURRENCY_REFUSALS.inc()
            raise TooManyAtOnce(self._most_at_once)
        self._running[key.key_id] = running + 1
        try:
            yield
        finally:
            self._running[key.key_id] -= 1
            if not self._running[key.key_id]:
                del self._running[key.key_id]

    async def _in_shared(self, key: ApiKey, policy: Policy, step: int) -> int | None:
        if self._shared is None:
            return None
        backlog = await self._shared.take(key.key_id, step, policy.depth)
        if backlog is None:
            LIMIT_FAIL_OPENS.inc()
        return backlog


@asynccontextmanager
async def admitted(limiter: Limiter, request: web.Request, key: ApiKey) -> AsyncIterator[None]:
    """Count a request and hold a place for it; raise RateLimited or TooManyAtOnce.

    The headers of `Standing` are in every answer from then on. A request that is refused a place was counted: who goes
    on sending too many at once comes to the end of the rate. What Redis is expected to let through is begun while Redis
    counts; if it does not, RateLimited is raised at the end, and what was found is dropped (decision 11).
    """
    # A task each, so that Redis counts them in the order in which they came.
    counting = asyncio.create_task(_count(limiter, request, key)) if limiter.is_shared else None
    if counting is None:
        await _count(limiter, request, key)
    elif not limiter.expects(key):
        await counting
    with limiter.place(key):
        try:
            yield
        finally:
            if counting is not None:
                await counting


async def _count(limiter: Limiter, request: web.Request, key: ApiKey) -> None:
    standing = await limiter.hit(key)
    request[FURTHER].update(standing.headers())
    if not standing.allowed:
        _RATE_REFUSALS.inc()
        raise RateLimited(standing.retry_after)


async def refunded(limiter: Limiter, request: web.Request, key: ApiKey) -> None:
    """Let a request that was admitted cost nothing."""
    request[FURTHER].update((await limiter.refund(key)).headers())


def make_limiter(settings: ServiceSettings, prefix: str) -> Limiter:
    """Return the limiter of the settings; raise SettingError. In Redis a key is its public id behind `prefix`."""
    if not settings.redis_url:
        return Limiter(settings)
    # The client takes a good part of a start to import.
    from service.limits.shared import SharedBuckets  # noqa: PLC0415

    return Limiter(settings, SharedBuckets(settings.redis_url, f"{prefix}rate:"))
