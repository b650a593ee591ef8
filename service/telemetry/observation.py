"""What is observed about one request, for metrics, logs and traces, and the totals of all.

Only the feed page contains text sent by a client: a route is a template, a key its public id. Labels are bounded: path
templates, the statuses that the service returns, and configured tiers.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import Protocol

import msgspec
from aiohttp.typedefs import Middleware
from prometheus_client import Counter

# Seconds: the range of page latencies, up to the longest reasonable deadline.
REQUEST_BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds of event loop lag: tens of milliseconds are harmful.
LAG_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = REQUEST_BOUNDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def counts(self) -> dict[float, int]:
        return dict(zip((*self._bounds, inf), self._counts, strict=True))

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, in the format of Prometheus."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


def quantile(counts: Mapping[float, int], share: float) -> float | None:
    """Estimate a quantile, such as 0.99, from counts by upper bound; None without values.

    Interpolates linearly within a bucket, like Prometheus; beyond the last bound it returns that bound.
    """
    rank, below, lower = share * sum(counts.values()), 0, 0.0
    for upper, count in sorted(counts.items()):
        if count and below + count >= rank:
            return lower if upper == inf else lower + (upper - lower) * (rank - below) / count
        below, lower = below + count, upper
    return None


class Layer(StrEnum):
    """The layers of a request, in order of execution."""

    AUTH = "auth"  # authentication
    TURN = "turn"  # waiting for a slot
    QUERY = "query"  # parameters, scope, search body
    ELASTICSEARCH = "elasticsearch"  # from the first byte of the search sent to the last byte of its response
    SPLICE = "splice"  # from the search response to the parts of ours
    ENCODE = "encode"  # compression
    WRITE = "write"  # until the connection has accepted the last byte, as fast as the client reads

    __hash__ = str.__hash__  # that of an Enum runs in Python, for each record of each request


class Timer:
    __slots__ = ("_last", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[Layer, float] = {}
        self._last = time.perf_counter()

    def record(self, layer: Layer) -> None:
        now = time.perf_counter()
        self.seconds[layer] = self.seconds.get(layer, 0.0) + now - self._last
        self._last = now

    def header(self) -> str:
        """Return the value of `Server-Timing`, in milliseconds; excludes `write`, which happens later."""
        return ", ".join(f"{layer};dur={seconds * 1000:.3f}" for layer, seconds in self.seconds.items())


@dataclass
class TimingTotal:
    count: int = 0
    seconds: float = 0.0


@dataclass
class TimingTotals:
    totals: dict[tuple[str, Layer], TimingTotal] = field(default_factory=lambda: defaultdict(TimingTotal))

    def add(self, path: str, timer: Timer) -> None:
        for layer, seconds in timer.seconds.items():
            total = self.totals[path, layer]
            total.count += 1
            total.seconds += seconds

    def rows(self) -> Iterator[tuple[str, Layer, TimingTotal]]:
        for (path, layer), total in self.totals.items():
            yield path, layer, total


# The label of a request without a route, key or tier.
NO_LABEL = "none"


class FeedPage(msgspec.Struct, frozen=True):
    """What a consumer read with one request: from the cursor `after` to `last`.

    `resource` may be several names, separated by commas. The first page of a read has a `watermark`, in seconds since
    1970: who reads to the end has everything up to it.
    """

    method: str
    resource: str
    company: str
    after: str | None
    last: str | None
    updated_since: int | None
    is_final: bool
    watermark: int | None


def is_public() -> bool:
    """Whether a response is withdrawn that holds nothing that a key permits: never."""
    return False


class RequestObservation:
    """Observations about one request: created on arrival, filled in by each step, read when it has completed."""

    __slots__ = (
        "cost",
        "ignored",
        "is_compatible",
        "is_shared",
        "is_withdrawn",
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
        self.cost = 1  # what it takes from the rate limit of its key
        self.rows = 0  # records in the response
        self.sent_bytes = 0  # of a response without a known length
        self.ignored = 0  # unknown parameters that were left out
        self.is_compatible = False  # whether the key or the request has the compatible profile
        self.is_shared = False  # whether it used a search started by another request
        self.is_withdrawn: Callable[[], bool] = is_public  # whether the key may no longer read the response
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


def status_class(status: int) -> str:
    """Return the class of a status, such as `2xx`."""
    return f"{status // 100}xx"


@dataclass
class TrafficTotals:
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


# Starts a span for the method and target of a request; None outside a trace.
StartSpan = Callable[[str, str], "AttemptSpan | None"]


class AttemptSpan(Protocol):
    """The span of one request to Elasticsearch."""

    def end(self, status: int | None) -> None:
        """End the span with the status of the response, None without a response."""


class Attempts:
    """Histograms of requests to Elasticsearch, in seconds, by status class; `none` without a response."""

    def __init__(self, start_span: StartSpan | None = None) -> None:
        self.start_span = start_span
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)

    def add(self, status: int | None, seconds: float, span: AttemptSpan | None) -> None:
        """Add one request, and end its span; the status is None without a response."""
        self.seconds[NO_LABEL if status is None else status_class(status)].add(seconds)
        if span is not None:
            span.end(status)


_PERIOD_SECONDS = 0.25


class LoopLag:
    """How late a timer fires, in seconds, measured four times a second."""

    def __init__(self) -> None:
        self.seconds = Histogram(LAG_BOUNDS)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _PERIOD_SECONDS
            await asyncio.sleep(_PERIOD_SECONDS)
            self.seconds.add(max(0.0, loop.time() - due))


@dataclass
class Totals:
    traffic: TrafficTotals = field(default_factory=TrafficTotals)
    timings: TimingTotals = field(default_factory=TimingTotals)
    loop_lag: LoopLag = field(default_factory=LoopLag)


class Tracing(Protocol):
    """Creates spans for requests and for their requests to Elasticsearch."""

    @property
    def middleware(self) -> Middleware:
        """The middleware that traces requests."""

    @property
    def start_span(self) -> StartSpan:
        """The function that starts the span of a request to Elasticsearch."""

    def close(self) -> None:
        """Export the remaining spans; takes seconds if the collector does not respond."""


UNMARKED_RESPONSES = Counter(
    "brokerage_unmarked_answers",
    "Elasticsearch responses that had to be parsed because the indexer had not written one of the documents.",
)
SHARED_SEARCHES = Counter("brokerage_shared_searches", "Searches saved because an identical one was in flight.")
RETRIES = Counter(
    "brokerage_retries",
    "Retries after the loss of a node: answered, failed, given up by the client, or refused by the budget.",
    ["outcome"],
)
ENGINE_FAILURES = Counter("brokerage_elasticsearch_failures", "Failed requests to Elasticsearch, by kind.", ["kind"])
LIMIT_HITS = Counter("brokerage_limit_hits", "Requests counted against the rate limit of their key.")
LIMIT_REFUSALS = Counter(
    "brokerage_limit_refusals",
    "Requests refused with 429: rate, concurrency or unread responses of the key, its share of long-held slots, or "
    "failed authentications of the address.",
    ["kind"],
)
DELAYED_REFUSALS = Counter(
    "brokerage_refusals_delayed", "Refusals that waited for their turn, because the client was refused too often."
)
ABORTED_CONNECTIONS = Counter(
    "brokerage_connections_aborted",
    "Connections aborted because the client took too little of a response in time (stalled), because too many bytes "
    "were waiting for clients (unsent), or because the key was revoked or may read less (withdrawn).",
    ["reason"],
)
LIMIT_FAIL_OPENS = Counter(
    "brokerage_limit_fail_opens", "Requests counted in this process only, because Redis was unreachable."
)
KEY_USAGE_FAILURES = Counter("brokerage_key_usage_failures", "Failed attempts to record the last use of keys.")
AUDIT_ROWS = Counter("brokerage_audit_rows", "Rows of the audit that were written: what keys were sent.")
AUDIT_LOST = Counter(
    "brokerage_audit_lost", "Records that keys were sent and that the audit could not record: memory was full."
)
AUDIT_FAILURES = Counter("brokerage_audit_failures", "Failed attempts to write the audit.")
