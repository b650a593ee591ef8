"""Rate policies: the rate and burst of a key, from its record and the configured tiers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from cluster.settings import SettingError

TIERS_SETTING = "BROKERAGE_TIERS"

_MINUTE_MICROSECONDS = 60_000_000
_MIN_DEFAULT_BURST = 20
# Beyond any real load; the interval in whole microseconds is still exact to a thousandth.
MAX_PER_MINUTE = 60_000

_TIER = re.compile(r"(?P<name>[a-z0-9-]{1,32})=(?P<rate>\d{1,9})(?:/(?P<burst>\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class RatePolicy:
    """A bucket that holds `burst` requests and refills at `rate` requests per minute."""

    rate: int
    burst: int

    @cached_property
    def interval_microseconds(self) -> int:
        """Microseconds per request, rounded up so that the rate is never exceeded."""
        return -(-_MINUTE_MICROSECONDS // self.rate)

    @cached_property
    def depth_microseconds(self) -> int:
        """Microseconds until an empty bucket is full."""
        return self.burst * self.interval_microseconds


def default_burst(rate: int) -> int:
    """Return ten seconds of the rate (a sixth of it), at least 20 and at most the rate."""
    return min(max(rate // 6, _MIN_DEFAULT_BURST), rate)


@lru_cache(maxsize=1024)
def rate_policy(rate: int, burst: int | None) -> RatePolicy:
    return RatePolicy(rate, default_burst(rate) if burst is None else burst)


def read_tiers(texts: Sequence[str]) -> dict[str, RatePolicy]:
    """Parse tiers such as `gold=3000/500` or `bronze=60`; raise SettingError that names the invalid one."""
    tiers: dict[str, RatePolicy] = {}
    for text in texts:
        match = _TIER.fullmatch(text)
        if match is None:
            raise SettingError(f"{TIERS_SETTING}: {text!r} is not of the form name=rate or name=rate/burst.")
        rate, burst = int(match["rate"]), None if match["burst"] is None else int(match["burst"])
        if not 1 <= rate <= MAX_PER_MINUTE or burst == 0 or (burst or 0) > MAX_PER_MINUTE:
            raise SettingError(f"{TIERS_SETTING}: in {text!r} a number is not between 1 and {MAX_PER_MINUTE}.")
        if match["name"] in tiers:
            raise SettingError(f"{TIERS_SETTING}: {text!r} repeats the name of a tier.")
        tiers[match["name"]] = rate_policy(rate, burst)
    return tiers
