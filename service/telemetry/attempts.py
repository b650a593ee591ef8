"""The requests to Elasticsearch: how long each took and how it ended, as a sum and, where traces are on, as a span."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, Self

from service.telemetry.histogram import Histogram
from service.telemetry.observation import NONE
from service.telemetry.traffic import status_class

if TYPE_CHECKING:
    from collections.abc import Callable

    # Begins a span for the method and the target of a request; None where nobody traces what it is for.
    Trace = Callable[[str, str], "AttemptSpan | None"]


class AttemptSpan(Protocol):
    """The span of one request to Elasticsearch."""

    def end(self, status: int | None) -> None:
        """End it, with the status of the answer, None where none came."""


class Attempts:
    """The seconds of all requests to Elasticsearch by the class of their status, `none` where no answer came."""

    def __init__(self, trace: Trace | None = None) -> None:
        """Begin with no request; `trace` begins the span of each."""
        self.trace = trace
        self.seconds: dict[str, Histogram] = defaultdict(Histogram)

    def begun(self, method: str, target: str) -> Attempt:
        """Return one request, which is counted at the end of its `with`."""
        return Attempt(self, None if self.trace is None else self.trace(method, target))


class Attempt:
    """One request; set its `status` once there is one."""

    __slots__ = ("_attempts", "_began", "_span", "status")

    def __init__(self, attempts: Attempts, span: AttemptSpan | None) -> None:
        """Begin now."""
        self.status: int | None = None
        self._attempts = attempts
        self._span = span
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Count it, whatever became of it."""
        outcome = NONE if self.status is None else status_class(self.status)
        self._attempts.seconds[outcome].add(time.perf_counter() - self._began)
        if self._span is not None:
            self._span.end(self.status)
