"""The sums of all requests: plain numbers, turned into metrics when Prometheus asks.

The labels are bounded by construction: routes are the templates of the service, statuses its own, tiers the settings'.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from service.telemetry.observation import Observation


def status_class(status: int) -> str:
    """Return the class of a status, such as `2xx`."""
    return f"{status // 100}xx"


@dataclass
class Traffic:
    """What was answered, by route."""

    requests: dict[tuple[str, int, str], int] = field(default_factory=lambda: defaultdict(int))  # route, status, tier
    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    body_bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[tuple[str, str], Histogram] = field(default_factory=lambda: defaultdict(Histogram))

    def add(self, seen: Observation, status: int, rows: int, body_bytes: int, seconds: float) -> None:
        """Add one request; `seconds` until its answer was ready to be sent, bytes as they are sent, packed or not."""
        route = seen.route
        self.requests[route, status, seen.tier] += 1
        self.rows[route] += rows
        self.body_bytes[route] += body_bytes
        self.seconds[route, status_class(status)].add(seconds)
