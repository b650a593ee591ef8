"""A limit on requests without a valid key, per client address.

Checked only after a key was found invalid: clients with valid keys behind the same NAT are unaffected.
"""

from service.http.client_address import IpAddress, client_network
from service.limits.limit_errors import AuthFailuresLimited
from service.limits.local_buckets import LocalBuckets
from service.limits.rate_policy import RatePolicy
from service.limits.rate_state import RateLimitState
from service.telemetry.counters import LIMIT_REFUSALS

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
