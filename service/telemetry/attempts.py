"""Durations and outcomes of requests to Elasticsearch, as histograms and, with tracing, as spans."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol, Self

from service.telemetry.histogram import Histogram
from service.telemetry.observation import NO_LABEL
from service.telemetry.traffic import status_class

# Starts a span for the method and target of a request; None outside a trace.
StartSpan = Callable[[str, str], "AttemptSpan | None"]


class AttemptSpan(Protocol):
    """The span of one request to Elasticsearch."""

    def end(self, status: int | None) -> None:
        """End the span with the status of the response, None without a response."""


class Attempts:
    """Histograms of requests to Elasticsearch, in seconds, by status class; `none` without a response."""

    def __init__(self, start_span: StartSpan | None = None) -> None:
        """Start with no requests."""
        self.start_span = start_span
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)

    def start(self, method: str, target: str) -> Attempt:
        """Return a context manager that measures one request."""
        return Attempt(self, None if self.start_span is None else self.start_span(method, target))


class Attempt:
    """One measured request; set its `status` when the response arrives."""

    __slots__ = ("_attempts", "_began", "_span", "status")

    def __init__(self, attempts: Attempts, span: AttemptSpan | None) -> None:
        """Start measuring."""
        self.status: int | None = None
        self._attempts = attempts
        self._span = span
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        """Return the attempt."""
        return self

    def __exit__(self, *_: object) -> None:
        """Record the duration and outcome."""
        outcome = NO_LABEL if self.status is None else status_class(self.status)
        self._attempts.seconds[outcome].add(time.perf_counter() - self._began)
        if self._span is not None:
            self._span.end(self.status)
