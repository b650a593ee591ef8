"""What a key may ask for: requests a minute and a burst, from its record and the tiers of the settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cluster.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.keys.record import ApiKey

TIERS = "BROKERAGE_TIERS"

_MINUTE_MICROSECONDS = 60_000_000
_SMALLEST_BURST = 20
# No service answers more, and a step of whole microseconds stays exact to a thousandth.
MOST_PER_MINUTE = 60_000

_TIER = re.compile(r"(?P<name>[a-z0-9-]{1,32})=(?P<rate>\d{1,9})(?:/(?P<burst>\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Policy:
    """A bucket: it holds `burst` requests and is filled evenly with `rate` of them a minute."""

    rate: int
    burst: int

    @property
    def step(self) -> int:
        """Microseconds in which the bucket gains one request, rounded up: never more than the rate."""
        return -(-_MINUTE_MICROSECONDS // self.rate)

    @property
    def depth(self) -> int:
        """Microseconds in which the empty bucket is filled."""
        return self.burst * self.step


def default_burst(rate: int) -> int:
    """Return a sixth of the rate, so ten seconds of it; at least 20 and at most the rate."""
    return min(max(rate // 6, _SMALLEST_BURST), rate)


@lru_cache(maxsize=1024)
def _policy(rate: int, burst: int | None) -> Policy:
    return Policy(rate, default_burst(rate) if burst is None else burst)


def read_tiers(texts: Sequence[str]) -> dict[str, Policy]:
    """Read tiers such as `gold=3000/500` or `bronze=60`; raise SettingError that names the part at fault."""
    tiers: dict[str, Policy] = {}
    for text in texts:
        match = _TIER.fullmatch(text)
        if match is None:
            raise SettingError(f"{TIERS}: {text!r} is not of the form name=rate or name=rate/burst.")
        rate, burst = int(match["rate"]), None if match["burst"] is None else int(match["burst"])
        if not 1 <= rate <= MOST_PER_MINUTE or burst == 0 or (burst or 0) > MOST_PER_MINUTE:
            raise SettingError(f"{TIERS}: in {text!r} a number is not between 1 and {MOST_PER_MINUTE}.")
        if match["name"] in tiers:
            raise SettingError(f"{TIERS}: {text!r} names a tier for the second time.")
        tiers[match["name"]] = _policy(rate, burst)
    return tiers


def policy_of(key: ApiKey, tiers: Mapping[str, Policy]) -> Policy | None:
    """Return what a key may ask for, None where it is not limited.

    The rate is its tier's, else its own: a tier that the settings do not know (any more) limits nobody to nothing. The
    burst is its own, else its tier's, else `default_burst`. A record that holds no usable number is held to 1.
    """
    tier = tiers.get(key.tier) if key.tier is not None else None
    rate = key.rate if tier is None else tier.rate
    if rate is None:
        return None
    burst = key.burst if key.burst is not None or tier is None else tier.burst
    return _policy(_bounded(rate), burst if burst is None else _bounded(burst))


def _bounded(number: int) -> int:
    return min(max(number, 1), MOST_PER_MINUTE)
