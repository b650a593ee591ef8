"""Observations about one request, for metrics, logs and traces.

Only the feed page contains text sent by a client: a route is a template, a key its public id.
"""

import time
from contextvars import ContextVar

import msgspec

from service.telemetry.timing import Layer, Timer

# The label of a request without a route, key or tier.
NO_LABEL = "none"


class FeedPage(msgspec.Struct, frozen=True):
    """One page of a feed: from the cursor `after` to `last`; a first page also has a `watermark`."""

    resource: str
    company: str
    after: str | None
    last: str | None
    updated_since: int | None
    is_final: bool
    watermark: int | None


class RequestObservation:
    """Observations about one request: created on arrival, filled in by each step, read when it has completed."""

    __slots__ = (
        "is_compatible",
        "is_shared",
        "key_id",
        "page",
        "ready_at",
        "request_id",
        "route",
        "rows",
        "sent_bytes",
        "started_at",
        "tier",
        "timer",
        "trace_id",
    )

    def __init__(self, request_id: str = "") -> None:
        """Start the clock. `request_id` is empty if the request was refused before it had one."""
        self.request_id = request_id
        self.route = NO_LABEL  # template of the path
        self.key_id = ""  # the public id of the key, once accepted
        self.tier = NO_LABEL  # the rate tier of the key, if configured
        self.rows = 0  # records in the response
        self.sent_bytes = 0  # of a response without a known length
        self.is_compatible = False  # whether the key or the request has the compatible profile
        self.is_shared = False  # whether it used a search started by another request
        self.page: FeedPage | None = None  # for the console only, never in labels or log lines
        self.timer: Timer | None = None
        self.trace_id = ""
        self.started_at = time.perf_counter()
        self.ready_at = 0.0  # when the response was ready to send

    @property
    def upstream_seconds(self) -> float | None:
        """Seconds this request waited for searches; None if none has completed."""
        return None if self.timer is None else self.timer.seconds.get(Layer.ELASTICSEARCH)


# The current request. aiohttp runs each request in its own context, so it is never reset.
CURRENT_OBSERVATION: ContextVar[RequestObservation] = ContextVar("observed request")
