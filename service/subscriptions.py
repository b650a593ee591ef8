"""The state of all subscriptions: `service.deliver` provides it, the console and the metrics read it."""

from typing import NamedTuple

import msgspec

from service.search.cached_value import CachedValue


class SubscriptionSummary(msgspec.Struct, frozen=True):
    """A subscription as it was last written. Times are in seconds since 1970.

    `behind` is for how long changes have waited for it, 0 if none wait, None if it is paused or its key is not valid.
    """

    name: str
    key_id: str
    url: str
    state: str  # active, failing, open (the circuit), paused, or stopped with the key
    behind: float | None
    number: int  # of the last delivery that was accepted
    delivered: float  # when, 0 before the first
    answer: str  # the last one
    answered: float


class KnownSubscriptions(NamedTuple):
    """All subscriptions, and when a process that delivers last gave a sign, 0 if none ever did."""

    summaries: list[SubscriptionSummary]
    heartbeat: float


class Subscriptions(CachedValue[KnownSubscriptions]):
    """All subscriptions, none without their index, as last read."""
