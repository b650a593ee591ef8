"""Refusals of clients that are refused again and again are sent after a pause: what is refused costs, too.

Only refusals wait, never other responses, so a client that makes few mistakes and one that shares an address notice
nothing. A client that sends its next request when the response has arrived is slowed down to one request per
connection and pause.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from service.http.client_address import client_address, client_network
from service.limits.local_buckets import LocalBuckets
from service.limits.rate_policy import RatePolicy, default_burst
from service.limits.rate_state import RateLimitState
from service.telemetry.counters import DELAYED_REFUSALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.http.client_address import IpNetwork

_PAUSE_SECONDS = 3.0
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
        """Send `per_minute` refusals of each client at once, 0 for all; `trusted` are the proxies in front."""
        self.waiting = 0
        self._policy = RatePolicy(per_minute, default_burst(per_minute)) if per_minute else None
        self._trusted = trusted
        self._buckets = LocalBuckets(_MAX_CLIENTS)

    async def pace(self, request: web.Request, status: int, key_id: str) -> None:
        """Wait before a response is sent, if it is one refusal of many; `key_id` is empty without an accepted key."""
        if self._policy is None or not _is_paced(status, key_id):
            return
        client = key_id or client_network(client_address(request, self._trusted))
        state = RateLimitState(self._policy, self._buckets.take(client, self._policy))
        if state.is_allowed or self.waiting >= _MOST_WAITING:
            return
        DELAYED_REFUSALS.inc()
        self.waiting += 1
        try:
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self.waiting -= 1


def _is_paced(status: int, key_id: str) -> bool:
    """Whether a status is a refusal. 503 is the service's own failure, unless it keeps strangers away."""
    return status in _FAULTS_OF_CLIENTS or (status == HTTPStatus.SERVICE_UNAVAILABLE and not key_id)


REFUSAL_PACER = web.AppKey("refusal pacer", RefusalPacer)
