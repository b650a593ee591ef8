"""Totals of all requests: plain numbers, converted to metrics on each scrape.

The labels are bounded: path templates, the statuses that the service returns, and configured tiers.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from service.telemetry.histogram import Histogram
from service.telemetry.observation import RequestObservation


def status_class(status: int) -> str:
    """Return the class of a status, such as `2xx`."""
    return f"{status // 100}xx"


@dataclass
class TrafficTotals:
    """Requests, rows, bytes and durations by route."""

    requests: dict[tuple[str, int, str], int] = field(default_factory=lambda: defaultdict(int))  # route, status, tier
    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    body_bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[tuple[str, str], Histogram] = field(default_factory=lambda: defaultdict(Histogram))

    def add(self, seen: RequestObservation, status: int, rows: int, body_bytes: int, seconds: float) -> None:
        """Add one request: `seconds` until its response was ready to send, bytes as sent, after compression."""
        route = seen.route
        self.requests[route, status, seen.tier] += 1
        self.rows[route] += rows
        self.body_bytes[route] += body_bytes
        self.seconds[route, status_class(status)].add(seconds)
