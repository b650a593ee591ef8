"""Limits per client address: of invalid keys, and of refused requests."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from service.http.requests import IpAddress, IpNetwork, client_address, client_network
from service.limits.admission import AuthFailuresLimited
from service.limits.rate_policy import RatePolicy, default_burst
from service.limits.rates import LocalBuckets, RateLimitState
from service.telemetry.counters import DELAYED_REFUSALS, LIMIT_REFUSALS
from service.telemetry.observation import RequestObservation

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
_MICROSECONDS = 1_000_000
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
    """Counts refusals in this process, by key, or by address without an accepted key."""

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
        return min(backlog / _MICROSECONDS, _LONGEST_SECONDS)


def _is_paced(status: int, seen: RequestObservation) -> bool:
    """Whether a status is a refusal. 503 is the service's own failure, unless an operation keeps strangers away."""
    is_stranger = seen.timer is not None and not seen.key_id
    return status in _FAULTS_OF_CLIENTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and is_stranger)


REFUSAL_PACER = web.AppKey("refusal pacer", RefusalPacer)
