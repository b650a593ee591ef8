"""Rate buckets in this process's memory: the generic cell rate algorithm, with one number per name."""

import time

from service.limits.rate_policy import RatePolicy


class LocalBuckets:
    """Buckets by name; beyond `capacity` the least recently used one is evicted, and so is full again."""

    def __init__(self, capacity: int) -> None:
        """Start with all buckets full."""
        self._capacity = capacity
        # When each bucket is full again, in microseconds of the monotonic clock; least recently used first.
        self._full_at: dict[str, int] = {}

    def take(self, name: str, policy: RatePolicy) -> int:
        """Take one request from a bucket if it has one; return `RateLimitState.backlog_microseconds`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now), now)
        backlog = full_at + policy.interval_microseconds - now
        self._store(name, full_at + policy.interval_microseconds if backlog <= policy.depth_microseconds else full_at)
        return backlog

    def put_back(self, name: str, policy: RatePolicy) -> int:
        """Return one request to a bucket; return `RateLimitState.backlog_microseconds`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now) - policy.interval_microseconds, now)
        self._store(name, full_at)
        return full_at - now

    def __len__(self) -> int:
        """Return the number of buckets in memory."""
        return len(self._full_at)

    def _store(self, name: str, full_at: int) -> None:
        if len(self._full_at) >= self._capacity:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[name] = full_at
