"""Buckets in the memory of this process: the generic cell rate algorithm, one number for each name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.limits.policy import Policy


class LocalBuckets:
    """Buckets by name; of more than `most` the one that was asked for longest ago is forgotten, and full again."""

    def __init__(self, most: int) -> None:
        """Begin with full buckets."""
        self._most = most
        # When each bucket is full again, in microseconds of the monotonic clock; the one last asked for is the last.
        self._full_at: dict[str, int] = {}

    def take(self, name: str, policy: Policy) -> int:
        """Take one request out of a bucket if it is there; return `Standing.backlog`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now), now)
        backlog = full_at + policy.step - now
        self._keep(name, full_at + policy.step if backlog <= policy.depth else full_at)
        return backlog

    def put_back(self, name: str, policy: Policy) -> int:
        """Put one request back into a bucket; return `Standing.backlog`."""
        now = time.monotonic_ns() // 1000
        full_at = max(self._full_at.pop(name, now) - policy.step, now)
        self._keep(name, full_at)
        return full_at - now

    def __len__(self) -> int:
        """How many buckets are remembered."""
        return len(self._full_at)

    def _keep(self, name: str, full_at: int) -> None:
        if len(self._full_at) >= self._most:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[name] = full_at
