"""The state of all subscriptions: `service.deliver` provides it, the console and the metrics read it."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from cluster.terminal import counted
from service.search.cached_value import CachedValue

_MAX_BEHIND_SECONDS = 600.0
_MAX_SILENCE_SECONDS = 120.0


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


class SubscriptionProblem(NamedTuple):
    """What operators should know, and what they can do."""

    text: str
    remedy: str
    concerns_all: bool = False


class KnownSubscriptions(NamedTuple):
    """All subscriptions, and when a process that delivers last gave a sign, 0 if none ever did."""

    summaries: list[SubscriptionSummary]
    heartbeat: float

    def problems(self, now: float) -> Iterator[SubscriptionProblem]:
        """Yield that nothing delivers, and the subscriptions that are behind, get no answer or have no valid key."""
        if self.summaries and now - self.heartbeat > _MAX_SILENCE_SECONDS:
            text = "No process of `brokerage deliver` gives a sign: nothing is sent to subscriptions."
            yield SubscriptionProblem(text, "Start it, or see its log.", concerns_all=True)
        for summary in self.summaries:
            name, behind = summary.name, summary.behind or 0.0
            if summary.state == "stopped":
                text = f"The subscription {name} gets nothing: its key {summary.key_id} is not valid."
                yield SubscriptionProblem(text, f"Delete it: `brokerage subscriptions delete {name}`.")
            elif summary.state == "open" or behind > _MAX_BEHIND_SECONDS:
                text = f"The subscription {name} is {counted(int(behind // 60), 'minute')} behind."
                answer = f"Last answer: {summary.answer or 'none'}."
                yield SubscriptionProblem(
                    f"{text} {answer}", "Contact its owner, and see `brokerage subscriptions list`."
                )


class Subscriptions(CachedValue[KnownSubscriptions]):
    """All subscriptions, none without their index, as last read."""
