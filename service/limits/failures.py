"""Requests without a valid key, counted by the address they come from.

Checked only once a key was found wrong: whoever shares an address with a guesser, behind one NAT, keeps being answered.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from service.limits.local import LocalBuckets
from service.limits.policy import Policy
from service.limits.refusals import TooManyFailures
from service.limits.standing import Standing
from service.metrics import LIMIT_REFUSALS

if TYPE_CHECKING:
    from service.addresses import Address

_MOST_ADDRESSES = 10_000
# What one customer of a provider is given: within it he has as many addresses as he likes.
_IPV6_PREFIX = 64


class Failures:
    """Counts failed authentications in this process."""

    def __init__(self, per_minute: int) -> None:
        """Let each address fail so often a minute, and as often at once; 0 for no limit."""
        self._policy = Policy(per_minute, per_minute) if per_minute else None
        self._buckets = LocalBuckets(_MOST_ADDRESSES)

    def count(self, address: Address | None) -> None:
        """Count a failure; raise TooManyFailures beyond the limit. What has no address counts as one together."""
        if self._policy is None:
            return
        standing = Standing(self._policy, self._buckets.take(_network(address), self._policy))
        if not standing.allowed:
            LIMIT_REFUSALS.labels("failures").inc()
            raise TooManyFailures(standing.retry_after)


def _network(address: Address | None) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, _IPV6_PREFIX), strict=False))
    return str(address)
